"""Mutation operators change one thing at a time, and what they make still compiles."""

import ast
import subprocess
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.mutants.bases import BASES, Base
from lab.mutants.catalogue import Mutant, mutants_of
from lab.mutants.edits import at_each, calls, outside_brackets
from lab.mutants.equivalent import EQUIVALENT
from lab.mutants.kernel_operators import BODY, BY_LUCK, PRELUDE, bodies_start
from lab.mutants.meaning_operators import MEANING, as_candidate
from lab.mutants.module_operators import MODULE

from kernelwright.tasks.suite import suite_tasks

PRINTED = (1, 2, 6, 8, 10, 12, 14, 17, 19, 21, 26, 27)
"""Bases in whose kernels every operator finds a place."""
COMPILED = (12, 17, 26)


def base(number: int) -> Base:
    return next(b for b in BASES if b.number == number)


@cache
def made(number: int) -> tuple[Mutant, ...]:
    return mutants_of(base(number))


@pytest.mark.slow
def test_every_operator_finds_a_place() -> None:
    used = {(m.layer, m.operator) for number in PRINTED for m in made(number)}
    layers = {"kernel": BODY, "prelude": PRELUDE, "module": MODULE, "meaning": MEANING}
    known = {(layer, name) for layer, operators in layers.items() for name in operators}
    only_elsewhere = {
        ("kernel", "carry_lost"),
        ("meaning", "transposed"),
        ("meaning", "flag_flipped"),
        ("prelude", "logarithm_of_subnormals"),
    }
    assert known - used <= only_elsewhere


@pytest.mark.parametrize("number", PRINTED)
def test_a_mutant_is_another_text_than_its_original_and_no_two_are_the_same(number: int) -> None:
    mutants = made(number)
    assert len({m.source for m in mutants}) == len({m.name for m in mutants}) == len(mutants)
    for mutant in mutants:
        assert mutant.source != mutant.original
        ast.parse(mutant.source)


def test_mutants_of_kernels_compile(tmp_path: Path) -> None:
    files = []
    for number in COMPILED:
        for i, mutant in enumerate(m for m in made(number) if m.layer in ("kernel", "prelude")):
            text = mutant.source.partition("CPP_SOURCE = r'''")[2].partition("'''")[0]
            files.append(tmp_path / f"{number}_{i}_{mutant.operator}.cpp")
            files[-1].write_text(text, encoding="utf-8")
    assert len(files) > 30
    command = ["g++", "-std=c++17", "-fopenmp", "-fsyntax-only", "-w", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_what_is_declared_to_be_no_bug_has_a_reason_and_is_no_luck() -> None:
    for pattern, reason in EQUIVALENT.items():
        task, layer, operator, _ = pattern.split("/")
        assert task and layer and len(reason) > 20
        assert operator not in BY_LUCK


@settings(max_examples=40)
@given(task=st.sampled_from(suite_tasks()), operator=st.sampled_from(sorted(MEANING)))
def test_a_changed_meaning_is_still_a_module(task: object, operator: str) -> None:
    source = task.source  # type: ignore[attr-defined]
    for text in MEANING[operator](source):
        assert "class ModelNew(" in text and "class Model(" not in text
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(as_candidate(source)))


def test_the_prelude_is_left_alone_by_operators_on_bodies() -> None:
    kernel = made(27)[0].original
    text = kernel.partition("CPP_SOURCE = r'''\n")[2].partition("'''")[0]
    prelude = text[: bodies_start(text)]
    assert "vexp" in prelude and "r__softmax" not in prelude
    changed = [new for name, operator in BODY.items() if "in_" not in name for new in operator(text)]
    untouched = [new for new in changed if new.startswith(prelude)]
    assert len(untouched) > len(changed) / 2 > 5


words = st.text("ab01", min_size=1, max_size=3)
expressions = st.recursive(
    words,
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(lambda a: f"f({', '.join(a)})"),
    max_leaves=8,
)


@given(arguments=st.lists(expressions, min_size=1, max_size=4), before=words, after=words)
def test_calls_are_split_at_their_own_commas(arguments: list[str], before: str, after: str) -> None:
    text = f"{before} = outer({', '.join(arguments)}) + {after}"
    ((begin, end, found),) = list(calls(text, "outer"))
    assert found == arguments
    assert text[begin:end] == f"outer({', '.join(arguments)})"


@given(text=st.text("ab", max_size=20))
def test_each_place_is_changed_by_itself(text: str) -> None:
    changed = list(at_each(text, "a", "X"))
    assert len(changed) == text.count("a")
    assert all(new.count("X") == 1 and new.replace("X", "a") == text for new in changed)


def test_operators_in_an_index_do_not_count() -> None:
    text = "a[i + 1] + b[j * (k - 1)] - c"
    assert [text[i] for i in outside_brackets(text, "+-*")] == ["+", "-"]

"""The first look at a source: small limits, long and nasty texts."""

import pytest

from kernelwright.core.source import MAX_SOURCE_BYTES, normalise
from kernelwright.referee.checks import guard
from kernelwright.referee.checks.guard import find_syntax_problem

GOOD = "class ModelNew: pass\n"
BAD = {
    "class Other: pass": "defines no `ModelNew`",
    "class ModelNew(:": "not Python: line 1",
    "(" * 5000: "not Python",
    "x = 1\0": "not Python",
    "ModelNew = '\ud800'": "not Python",
    "# coding: nonsense\n" + GOOD: "",
}


@pytest.mark.parametrize(
    "source", [GOOD, "from x import y as ModelNew", "if 1:\n    ModelNew = 2", "ModelNew: int"]
)
def test_a_candidate_is_let_through(source: str) -> None:
    assert find_syntax_problem(source) is None


@pytest.mark.parametrize("source", BAD)
def test_what_is_no_candidate_is_named(source: str) -> None:
    assert (find_syntax_problem(source) or "").startswith(BAD[source])


def test_a_long_source_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_PARSER", "/nonexistent")
    problem = find_syntax_problem(GOOD + "x=1\n" * (MAX_SOURCE_BYTES // 4))
    assert problem is not None and f"at most {MAX_SOURCE_BYTES}" in problem
    assert find_syntax_problem("é" * (MAX_SOURCE_BYTES // 2 + 1)) is not None


def test_a_long_source_is_its_own_program() -> None:
    source = GOOD + "# a comment\n" * (MAX_SOURCE_BYTES // 12)
    assert normalise(source) == source


@pytest.mark.parametrize(("limit", "value"), [("MEMORY_BYTES", 60 << 20), ("CPU_S", 1)])
def test_what_takes_too_much_to_parse_is_refused(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(guard, limit, value)
    heavy = GOOD + "x=1;" * (MAX_SOURCE_BYTES // 4 - 100) + "\n"
    problem = find_syntax_problem(heavy)
    assert problem is not None and problem.startswith("not Python")

"""Spans: only markers may be added, and only what is between them may be changed."""

import pytest

from kernelwright.agents.llm.span_markers import (
    BEGINS,
    ENDS,
    changes_outside,
    find_anchor_problem,
    has_marker,
    outside_pieces,
    without_markers,
)

BASE = "import a\n\ndef f(x):\n    y = x + 1\n    return y\n\ndef g():\n    pass\n"
MARKED = BASE.replace("    y = x + 1\n", f"    {BEGINS}\n    y = x + 1\n    # {ENDS}\n")


@pytest.mark.parametrize(
    "anchored",
    [MARKED, MARKED.strip(), MARKED.replace("\n\n", "\n"), BASE.replace("x + 1", f"x {BEGINS} + 1 {ENDS}")],
)
def test_markers_around_the_same_text_are_right(anchored: str) -> None:
    assert find_anchor_problem(anchored, BASE) is None


@pytest.mark.parametrize(
    ("anchored", "problem"),
    [
        (BASE, "no span is marked"),
        (MARKED.replace(ENDS, BEGINS), "pairs"),
        (MARKED.replace(f"    # {ENDS}\n", ""), "pairs"),
        (MARKED.replace("x + 1", "x + 2"), "differs at 'y=x+1'"),
        (MARKED.replace("    return y", "  return y"), "not the base's source"),
        (MARKED.replace("def g():\n    pass\n", ""), "not the base's source"),
    ],
)
def test_anything_else_is_named(anchored: str, problem: str) -> None:
    assert problem in (find_anchor_problem(anchored, BASE) or "")


def test_removing_the_markers_gives_the_base_exactly() -> None:
    assert without_markers(MARKED) == BASE
    assert has_marker(MARKED) and not has_marker(BASE)


def test_text_outside_must_come_back_in_order() -> None:
    assert outside_pieces(MARKED) == (
        "import a\ndef f(x):", "    return y\ndef g():\n    pass",
    )  # fmt: skip
    assert changes_outside(MARKED, BASE.replace("x + 1", "2 * x\n    y += 1")) == ()
    assert changes_outside(MARKED, BASE.replace("pass", "return 1")) == ("return y",)
    assert changes_outside(MARKED, BASE.replace("import a\n", "")) == ("import a",)

"""What is called spoiled after a kill."""

from dataclasses import replace
from typing import Any

import pytest
from lab.kills.snapshot import Snapshot, problems_between


@pytest.fixture
def whole() -> Snapshot:
    evaluations = (("a", False, "1.0"), ("b", False, "1.5"), ("b", True, "1.4"))
    return Snapshot("r", True, evaluations, ("x helps", "y does not"), ("b",), "b", "source", False, 9)


def test_a_run_that_was_carried_on_well_is_not_spoiled(whole: Snapshot) -> None:
    for n in range(4):
        before = Snapshot("r", evaluations=whole.evaluations[:n], n_events=2 * n)
        assert problems_between(before, whole, replace(whole, run_id="another")) == []
    assert problems_between(Snapshot(), whole, None) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"evaluations": (("a", False, "1.0"), ("b", True, "1.4"))}, "lost or changed"),
        ({"evaluations": (("a", False, "1.0"), ("b", False, "1.6"))}, "lost or changed"),
        ({"evaluations": (("a", False, "1.0"), ("b", False, "1.5")) * 2}, "evaluated 2 times"),
        ({"outcomes": ("x helps", "x helps")}, "2 times in the ledger"),
        ({"outcomes": ()}, "other outcomes"),
        ({"is_finished": False}, "not finished"),
        ({"has_gaps": True}, "not numbered"),
        ({"run_id": "other"}, "another run"),
        ({"plans": ("b", "a")}, "more than one plan"),
        ({"winner": "a"}, "other winner"),
    ],
)
def test_what_a_kill_spoils_is_named(whole: Snapshot, changes: dict[str, Any], problem: str) -> None:
    before = Snapshot("r", evaluations=whole.evaluations[:2])
    found = problems_between(before, replace(whole, **changes), whole)
    assert any(problem in text for text in found), found

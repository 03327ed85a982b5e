"""The kill experiment: what it calls spoiled. The kills themselves are in test_killed_runs.py."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.benchmarks.conftest import load_benchmark


@pytest.fixture(scope="module")
def kills() -> ModuleType:
    return load_benchmark("kills")


@pytest.fixture
def whole(kills: ModuleType) -> Any:
    evaluations = (("a", False, "1.0"), ("b", False, "1.5"), ("b", True, "1.4"))
    return kills.Snapshot("r", True, evaluations, ("x helps", "y does not"), ("b",), "b", "source", False, 9)


def test_a_run_that_was_carried_on_well_is_not_spoiled(kills: ModuleType, whole: Any) -> None:
    for n in range(4):
        before = kills.Snapshot("r", evaluations=whole.evaluations[:n], n_events=2 * n)
        assert kills.problems_between(before, whole, replace(whole, run_id="another")) == []
    assert kills.problems_between(kills.Snapshot(), whole, None) == []


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
def test_what_a_kill_spoils_is_named(
    kills: ModuleType, whole: Any, changes: dict[str, Any], problem: str
) -> None:
    before = kills.Snapshot("r", evaluations=whole.evaluations[:2])
    found = kills.problems_between(before, replace(whole, **changes), whole)
    assert any(problem in text for text in found), found


def test_real_kills_are_spread_among_the_others_and_hit_every_victim(kills: ModuleType) -> None:
    planned = kills.plan(100, 20)
    assert len({kill.key for kill in planned}) == 100
    real = [kill.victim for kill in planned if kill.program == "real"]
    assert len(real) == 20 and set(real) == {"group", "main", "zygote", "child"}
    assert any(kill.program == "real" for kill in planned[:5])


def test_a_kill_is_read_back_as_it_was_written(kills: ModuleType, tmp_path: Path) -> None:
    outcome = kills.Outcome(
        "real/main/3", "real", "main", "1 s after the start", 7, 2, True, ("spoiled",), 3.0, ("file x",)
    )
    file = tmp_path / kills.KILLS_FILE
    file.write_text(kills.json.dumps(kills.asdict(outcome)) + "\n" + '{"key"', encoding="utf-8")
    assert kills.read_outcomes(file) == {"real/main/3": outcome}
    text = kills.render([outcome], {"date": "d", "command": "c"})
    assert "| real | main | 1 | 0 | 0 | 1 | 1 | 1 |" in text and "spoiled; file x" in text

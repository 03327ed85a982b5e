"""``kernelwright memory``, on a real store."""

import math
from pathlib import Path
from typing import Any

import pytest

from kernelwright.core.plan import ParamValue
from kernelwright.core.run import Outcome
from kernelwright.skills.load import load_skills
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.store_contract import make_finding, make_plan

VERBS = ["show", "findings", "skills", "archive", "learn"]


@pytest.fixture
def store(cli: Any, tmp_path: Path) -> Store:
    """The store that the commands use."""
    return open_store(tmp_path / "runs.db")


def add_outcomes(
    store: Store,
    first: int,
    last: int,
    speedup: float = 1.3,
    params: dict[str, ParamValue] | None = None,
    skill: str = "tile-columns",
) -> None:
    """One try of one skill on each of several tasks."""
    for n in range(first, last):
        outcome = Outcome(
            skill=skill,
            target="cpu/cpp",
            structure="reduction",
            bottleneck="compute",
            task_id=f"t{n}",
            run_id=f"r{n}",
            move_key="m",
            verified=True,
            log_speedup=math.log(speedup),
            expected="run.latency_ms down x1.5",
            params=params or {},
        )
        store.add_outcome(outcome)


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_offers_json_and_help(cli: Any, verb: str) -> None:
    result = cli("memory", verb, "--help")
    assert result.code == 0 and "--json" in result.out and "--store" in result.out


def test_an_empty_store_is_no_error(cli: Any) -> None:
    assert "kernelwright optimize FILE" in cli("memory", "show").out
    assert "kernelwright memory learn" in cli("memory", "findings").out
    assert "no archived plans" in cli("memory", "archive").out
    assert "looked at 0 outcomes and 0 plans: nothing new" in cli("memory", "learn").out
    assert cli("memory", "show", "--json").json == {
        "outcomes": 0,
        "skills": 0,
        "tasks": 0,
        "plans": 0,
        "findings": {"proposed": 0, "admitted": 0, "rejected": 0},
        "effects": [],
    }
    assert cli("memory", "findings", "--json").json == cli("memory", "archive", "--json").json == []
    assert cli("memory", "learn", "--json").json == {"findings": 0, "changed": []}


def test_show_sets_expected_beside_measured(cli: Any, store: Store) -> None:
    add_outcomes(store, 0, 3)
    store.add_plan(make_plan())
    out = cli("memory", "show").out
    assert "3 outcomes, 1 skills, 3 tasks, 1 plans" in out
    row = next(line.split("  ") for line in out.splitlines() if line.startswith("tile-columns"))
    assert [cell.strip() for cell in row if cell.strip()] == [
        "tile-columns",
        "expert",
        "run.latency_ms down x1.5",
        "3",
        "3",
        "3",
        "1.30x",
    ]
    effect = cli("memory", "show", "--json").json["effects"][0]
    assert (effect["skill"], effect["tries"]) == ("tile-columns", 3)
    assert effect["median_speedup"] == pytest.approx(1.3)


def test_learning_proposes_then_admits_and_then_rests(cli: Any, store: Store) -> None:
    add_outcomes(store, 0, 4)
    first = cli("memory", "learn")
    assert "1 of 1 findings" in first.out and "new -> proposed: On reduction tasks" in first.out
    add_outcomes(store, 4, 8)
    assert "proposed -> admitted" in cli("memory", "learn").out
    assert "nothing new, the findings (1) stand" in cli("memory", "learn").out
    kept = list(store.iter_findings())
    assert [finding.state for finding in kept] == ["admitted"]
    assert not {line.split()[1].rstrip(":") for line in kept[0].proof} & set(kept[0].taken_from)


def test_learned_findings_are_listed_by_state(cli: Any, store: Store) -> None:
    store.add_finding(make_finding(1))
    store.add_finding(make_finding(2, state="admitted", proof=("task c: 1.3x",)))
    listed = cli("memory", "findings", "--json").json
    assert [finding["state"] for finding in listed] == ["proposed", "admitted"]
    assert listed[0]["id"] == make_finding(1).id
    out = cli("memory", "findings", "--state", "admitted").out
    assert "unroll 2 (tested on 1 other task)" in out and "unroll 1" not in out
    assert cli("memory", "findings", "--state", "guessed").code == 2


def test_proposed_skills_are_listed_and_written_by_state(cli: Any, store: Store, tmp_path: Path) -> None:
    name, folder = "tile-columns-tile-columns-64-on-cpu-cpp-reduction-compute", tmp_path / "skills"
    assert "no proposed skills" in cli("memory", "skills").out
    add_outcomes(store, 90, 91, 1.0, {"tile_columns": 32})
    add_outcomes(store, 0, 4, params={"tile_columns": 64})
    cli("memory", "learn")
    out = cli("memory", "skills", "-o", str(folder)).out
    assert name in out and "proposed" in out and "4 of 4 tasks [0.51, 1.00]" in out
    assert load_skills(folder / "proposed")[name].params == {"tile_columns": (64,)}
    add_outcomes(store, 4, 8, params={"tile_columns": 64})
    cli("memory", "learn")
    told = cli("memory", "skills", "--state", "admitted", "-o", str(folder), "--json").json
    assert [(one["skill"]["name"], one["since"]["won"]) for one in told] == [(name, 4)]
    assert (folder / "admitted" / f"{name}.md").read_text("utf-8") == told[0]["file"]
    assert not list((folder / "proposed").iterdir())


def test_a_file_in_the_place_of_the_folder_is_told(cli: Any, store: Store, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    add_outcomes(store, 90, 91, 1.0, {"tile_columns": 32})
    add_outcomes(store, 0, 4, params={"tile_columns": 64})
    cli("memory", "learn")
    result = cli("memory", "skills", "-o", str(tmp_path / "taken"))
    assert result.code != 0 and "cannot write" in result.err


def test_archive_lists_what_won_where(cli: Any, store: Store) -> None:
    store.add_plan(make_plan(7))
    out = cli("memory", "archive").out
    for cell in ("run-7", "task 7", "cpu/cpp", "reduction", "1.50x", "unroll"):
        assert cell in out
    assert cli("memory", "archive", "--json").json[0]["task_name"] == "task 7"

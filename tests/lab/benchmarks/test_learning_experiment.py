"""The learning experiment with the real engine, a scripted team and a referee that looks verdicts up."""

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kernelwright.api import playing
from kernelwright.core.events import CandidateEvaluated, Event
from kernelwright.core.task import Task
from kernelwright.machine import probe
from kernelwright.runs.loop import Crew
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import PEAKS, FakeReferee, ScriptedTeam, fake_prepare


class Killed(BaseException):
    """Stands for kill -9: nothing may catch it."""


@pytest.fixture
def learning() -> ModuleType:
    """The benchmark as a module."""
    return importlib.import_module("lab.benchmarks.learning")


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch, learning: ModuleType, tmp_path: Path) -> dict[str, int]:
    """Put scripted teams where the machine would be; returns at which evaluation to be killed."""
    real, killed_at = playing._tools, {"at": -1, "seen": 0}

    def listen(event: Event) -> None:
        killed_at["seen"] += isinstance(event, CandidateEvaluated)
        if killed_at["seen"] == killed_at["at"]:
            killed_at["seen"] += 1
            raise Killed

    def tools(spec: Any, store: Any, where: Any, referee: Any, on_event: Callable[[Event], None]) -> Any:
        made = real(spec, store, where, referee, listen)
        crew = Crew(ScriptedTeam(["a"], ["x", "y"]).team())
        return replace(made, assemble=lambda meter, tape: crew)

    monkeypatch.setattr(playing, "_tools", tools)
    keywords = {**(playing.carry_on.__kwdefaults__ or {}), "prepare": fake_prepare}
    monkeypatch.setattr(playing.carry_on, "__kwdefaults__", keywords)
    monkeypatch.setattr(playing, "open_referee", lambda **_: FakeReferee({"a": 1.5, "a>x": 1.6, "a>y": 3.0}))
    monkeypatch.setattr(probe, "measure_peaks", lambda cache_dir: PEAKS)
    words = ["--limit", "1", "--budget-evaluations", "3"]
    folders = ["--work", str(tmp_path / "work"), "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["learning.py", *words, *folders])
    return killed_at


def test_halves_alternate_within_each_kind_and_stay_even(learning: ModuleType) -> None:
    kinds = "ppplnnns"
    tasks = [
        Task(name=f"{i}_T", source=f"CATEGORY = {kind!r}\n# {i}") for i, kind in enumerate(kinds, start=1)
    ]
    names = {half: [task.name[0] for task in found] for half, found in learning.halves(tasks).items()}
    assert names == {"A": ["1", "3", "5", "7"], "B": ["2", "4", "6", "8"]}


def test_the_suites_halves_share_every_kind_with_two_tasks(learning: ModuleType) -> None:
    split = learning.halves(learning.suite_tasks())
    counts = [{learning.task_category(task) for task in split[half]} for half in ("A", "B")]
    assert abs(len(split["A"]) - len(split["B"])) <= 1
    assert counts[0] == counts[1]


def test_cold_runs_know_nothing_and_warm_ones_only_the_other_half(
    learning: ModuleType, stop_at: dict[str, int], tmp_path: Path
) -> None:
    learning.main()
    document = json.loads((tmp_path / "out" / "learning.json").read_text(encoding="utf-8"))
    assert [row["half"] for row in document["rows"]] == ["B", "A"]
    assert document["sums"][0]["n_tasks"] == 2
    store = open_store(tmp_path / "work" / "learned-from-A.db")
    learned = sum(
        1 for _, o in store.iter_outcomes() if o.run_id in {r.run_id for r in store.iter_runs("learn")}
    )
    known = {record.spec.is_cold: record.spec.ledger_until for record in store.iter_runs("test")}
    assert known == {True: 0, False: learned} and learned > 0


def test_the_same_command_carries_a_killed_one_on(
    learning: ModuleType, stop_at: dict[str, int], tmp_path: Path
) -> None:
    stop_at["at"] = 6  # within the warm run of the first direction
    with pytest.raises(Killed):
        learning.main()
    learning.main()
    store = open_store(tmp_path / "work" / "learned-from-A.db")
    assert [len(list(store.iter_runs(name))) for name in ("learn", "test")] == [1, 2]
    assert (tmp_path / "out" / "learning.md").read_text(encoding="utf-8").count("| 2_") == 1

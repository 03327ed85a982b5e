"""Runs in which a strong model's answers were supplied by hand, played again: nobody is asked or measured."""

import json
from pathlib import Path

import pytest
from tests.e2e.record import EXPECTED, told

from kernelwright import api
from kernelwright.settings import Settings
from kernelwright.store.sqlstore import open_store

FOLDER = Path(__file__).parent / "by_hand"
RUNS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def test_there_are_three() -> None:
    assert RUNS == ["kernel_regression", "pointwise_chain", "row_softmax"]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_by_hand_is_replayed_to_the_same_candidates_and_the_same_end(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERNELWRIGHT_API_KEY")
    store = open_store("sqlite://")
    outcome = api.replay_run(FOLDER / name, store=store, settings=settings)
    assert told(store, outcome) == json.loads((FOLDER / name / EXPECTED).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RUNS)
def test_its_task_is_the_one_that_stands_beside_the_figures(name: str) -> None:
    spec = json.loads((FOLDER / name / "spec.json").read_text(encoding="utf-8"))
    task = Path(__file__).parents[2] / "benchmarks" / "by_hand" / f"{name}.py"
    assert spec["task"]["source"] == task.read_text(encoding="utf-8")

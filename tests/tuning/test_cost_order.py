"""The cost model against recorded timings: small spaces measured once, one thread, nothing is timed here."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.machine import Machine
from kernelwright.core.places import AtPath
from kernelwright.ir.space import Point, Space
from kernelwright.targets.cpp.lowering import LOWERING
from kernelwright.targets.cpp.target import CPU_CPP
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.places import load_place
from kernelwright.tuning.guessing import Guess
from kernelwright.tuning.sources import SpaceSource

MEASURED = sorted((Path(__file__).parent / "measured").glob("*.json"))
Estimated = tuple[float, float]
"""Time by the model, and the ratio that was measured."""


def estimated(path: Path, folder: Path) -> list[Estimated]:
    known: dict[str, Any] = json.loads(path.read_text())
    (folder / "task.py").write_text(known["task"])
    task = load_place(AtPath(path=str(folder / "task.py")))
    space = Space(
        capture_task(task, task.workloads[0]), CPU_CPP.lowering, Machine.model_validate(known["machine"])
    )
    source = SpaceSource(space, lambda planned: "")
    found = [(source.estimate(point["values"]), point["ratio"]) for point in known["points"]]
    return [(cost, ratio) for cost, ratio in found if cost is not None]


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: str(path.stem))
def test_in_order_of_the_model_a_good_point_comes_sooner_than_by_lot(path: Path, tmp_path: Path) -> None:
    points = estimated(path, tmp_path)
    n_good = len(points) // 10
    good = sorted(ratio for _, ratio in points)[n_good - 1]
    in_order = [ratio for _, ratio in sorted(points)]
    first = 1 + next(place for place, ratio in enumerate(in_order) if ratio <= good)
    assert first < (len(points) + 1) / (n_good + 1)  # what a random order takes on average


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: str(path.stem))
def test_what_the_model_puts_last_is_slower_than_what_it_puts_first(path: Path, tmp_path: Path) -> None:
    in_order = [ratio for _, ratio in sorted(estimated(path, tmp_path))]
    third = len(in_order) // 3
    assert sorted(in_order[:third])[third // 2] < sorted(in_order[-third:])[third // 2]


def test_a_point_that_is_no_program_has_no_estimate(tmp_path: Path) -> None:
    known = json.loads(MEASURED[0].read_text())
    (tmp_path / "task.py").write_text(known["task"])
    task = load_place(AtPath(path=str(tmp_path / "task.py")))
    space = Space(capture_task(task, task.workloads[0]), LOWERING, Machine())
    assert SpaceSource(space, lambda planned: "").estimate({"nothing": 3}) is None
    assert space.plan(Point()).lowered is not None


def test_schedules_of_a_plan_start_at_the_plan(tmp_path: Path) -> None:
    known = json.loads(MEASURED[0].read_text())
    (tmp_path / "task.py").write_text(known["task"])
    task = load_place(AtPath(path=str(tmp_path / "task.py")))
    space = Space(capture_task(task, task.workloads[0]), LOWERING, Machine.model_validate(known["machine"]))
    default = space.plan(Point())
    assert default.lowered is not None
    schedules = space.schedules(default.plan, default.lowered)
    assert schedules.plan(Point()).lowered == default.lowered
    decision = next(d for d in schedules.decisions() if len(d.legal) > 1)
    value = next(v for v in decision.legal if v != decision.default)
    other = schedules.plan(Point.of({decision.name: value}))
    assert other.lowered is not None and other.lowered != default.lowered
    assert other.plan.moves[-1].params == {decision.param: value}


def test_what_was_timed_corrects_the_model() -> None:
    defaults = {"TILE": 1, "WAY": "a"}
    known = [
        ({"TILE": tile, "WAY": way}, 1.0, 0.5 if way == "b" else 1.0) for tile in (1, 2) for way in "ab"
    ] * 3
    guess = Guess(known, defaults)
    assert guess.ratio({"TILE": 2, "WAY": "b"}, 1.0) < 0.7 < guess.ratio({"TILE": 2, "WAY": "a"}, 1.0)


@given(st.floats(0.01, 100))
def test_where_nothing_was_timed_the_model_is_believed(model: float) -> None:
    assert Guess([]).ratio({"TILE": 3}, model) == pytest.approx(model)
    assert Guess([]).ratio({"TILE": 3}, None) == 1.0

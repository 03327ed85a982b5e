"""A compiler that gives up is on the record of the run, and its verdict does not hide it."""

from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.agents.teams import find_team
from kernelwright.core.budget import Budget
from kernelwright.core.events import LoweringGaveUp
from kernelwright.core.machine import Machine
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task
from kernelwright.ir import lower as lowering
from kernelwright.methods import find_recipe
from kernelwright.report.html import render_report
from kernelwright.report.story import tell
from kernelwright.report.verdict import run_verdict
from kernelwright.runs.loop import RunOutcome, start_run
from kernelwright.runs.prepare import prepare_on
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import PEAKS, FakeReferee

from .playing import events, tools_of

SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        {}
def get_inputs():
    return [torch.rand(8, 8)]
def get_init_inputs():
    return []
"""
PLAIN = SOURCE.format("return torch.relu(x) + 1")
UNCAPTURED = SOURCE.format("return x + 1 if x.sum() > 0 else x")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


def play(store: Store, source: str = PLAIN) -> RunOutcome:
    recipe = find_recipe("kernelskill")
    tools = tools_of(recipe, recipe.make_policy(0), store, FakeReferee({}), find_team("expert"))
    tools = replace(tools, prepare=lambda spec, cache_dir: prepare_on(spec, Machine(cores=2, peaks=PEAKS)))
    task = Task(name="t", source=source)
    return start_run(RunSpec(task=task, recipe=recipe.name, budget=Budget(evaluations=3)), tools)


def told(store: Store, run_id: str) -> list[LoweringGaveUp]:
    return [event for event in events(store, run_id) if isinstance(event, LoweringGaveUp)]


def test_a_compiler_that_does_its_work_tells_nothing(store: Store) -> None:
    assert told(store, play(store).run_id) == []


def test_a_compiler_that_gives_up_is_told_once_and_never_looks_like_nothing_faster(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lowering, "MAX_NODES", 1)
    outcome = play(store)
    (event,) = told(store, outcome.run_id)
    assert (event.step, event.workload, event.candidate) == (0, "default", None)
    assert "lowering takes at most 1" in event.reason
    story = tell(events(store, outcome.run_id))
    verdict = run_verdict(story)
    assert verdict.headline == "Nothing faster found, but the compiler gave up: the module stays as it is"
    assert any(event.reason in line for line in verdict.lines)
    assert event.reason in render_report(store, outcome.run_id)
    assert story.compiler == f"gave up on default: {event.reason}"


def test_a_module_that_cannot_be_captured_is_not_called_slow(store: Store) -> None:
    outcome = play(store, UNCAPTURED)
    story = tell(events(store, outcome.run_id))
    assert run_verdict(story).headline == "Not captured, so nothing was tried: the module stays as it is"
    assert story.compiler.startswith("not captured: ")

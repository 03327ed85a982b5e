"""kill -9 of a run, then resume: nothing finished is lost, repeated or changed, and nothing is left behind.

A few of the kills of ``benchmarks/kills.py``, which makes a hundred.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from lab.kills.laboratory import Kill, Laboratory, Moment
from lab.kills.processes import adopting_orphans
from tests.lab.benchmarks.conftest import load_benchmark

SCRIPTED = """
import sys
import time
from pathlib import Path
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task
from kernelwright.runs.loop import Crew, Tools, continue_run
from kernelwright.methods.kernelskill import KERNELSKILL
from kernelwright.methods.kernelskill import KernelSkillPolicy
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam, fake_prepare

store = open_store(Path("runs.db"))
spec = RunSpec(task=Task(name="t", source="reference"), recipe="kernelskill")
run = next(store.iter_runs(), None)
run_id = run.run_id if run else store.create_run(spec)
verdicts = {"a": 1.0, "a>x": 1.5, "a>y": 1.1, "a>x>x": 1.7, "a>x>y": 1.2, "a>x>x>y": 1.9}
tools = Tools(
    store=store,
    referee=FakeReferee(verdicts),
    assemble=lambda meter, tape: Crew(ScriptedTeam(["a"], ["x", "y"]).team()),
    policy=KernelSkillPolicy(rounds=6),
    pipelines=KERNELSKILL.pipelines,
    cache_dir=Path("unused"),
    prepare=fake_prepare,
    on_event=lambda event: time.sleep(1.0 if event.kind == "run_finished" else 0.02),
)
continue_run(run_id, tools)
"""


@dataclass(frozen=True)
class Scripted:
    """The engine and the store in a process of their own, with scripted verdicts."""

    name: str = "scripted"

    def begin(self, folder: Path) -> list[str]:
        return [sys.executable, "-c", SCRIPTED]

    def resume(self, folder: Path, run_id: str) -> list[str]:
        return self.begin(folder)


@pytest.fixture(scope="module")
def kills() -> ModuleType:
    return load_benchmark("kills")


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with adopting_orphans():
        yield Laboratory(tmp_path_factory.mktemp("kills"))


@pytest.mark.slow
def test_a_killed_run_ends_as_an_uninterrupted_one(laboratory: Laboratory) -> None:
    whole = laboratory.run_whole(Scripted())
    assert whole.end.winner is not None and len(whole.end.outcomes) > 2
    last = whole.end.n_events
    for number in (last // 2, last - 1, last):
        kill = Kill("scripted", "main", number)
        outcome = laboratory.kill(kill, Scripted(), Moment(number, 0.0), whole=whole.end)
        assert outcome.was_running and (outcome.n_events or 0) >= number
        assert (outcome.problems, outcome.left) == ((), ())


@pytest.mark.slow
def test_the_real_program_is_carried_on(
    kills: ModuleType, laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The main process is killed alone: its referee's processes must notice."""
    monkeypatch.setenv("KERNELWRIGHT_BASELINE", "eager")
    outcome = laboratory.kill(Kill("real", "main", 9), kills.Real(2), Moment(9, 0.3))
    assert outcome.was_running and (outcome.n_events or 0) >= 9
    assert outcome.problems == ()
    assert not [name for name in outcome.left if name.startswith("process")]

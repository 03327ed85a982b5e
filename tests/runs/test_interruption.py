"""An interrupted run: what it gives by then, what the store says, and that it can be carried on."""

from pathlib import Path

import pytest

from kernelwright.core.budget import Budget
from kernelwright.core.evaluation import Status
from kernelwright.core.events import CandidateEvaluated, Event, RunInterrupted
from kernelwright.core.run import RunState
from kernelwright.methods.kernelskill import KERNELSKILL, KernelSkillPolicy
from kernelwright.report.story import tell
from kernelwright.report.verdict import run_verdict
from kernelwright.runs.interruption import best_so_far
from kernelwright.runs.loop import Tools, continue_run, start_run
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam

from .playing import events, spec_of, tools_of

VERDICTS: dict[str, float | Status] = {
    "a": 1.0,
    "a>x": 1.6,
    "a>x>x": Status.CRASHED,
    "a>x>y": 1.7,
    "a>y": 1.1,
}
SPEC = spec_of(KERNELSKILL, budget=Budget(evaluations=5))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


class Interrupter:
    """Presses Ctrl-C after the nth evaluation."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, event: Event) -> None:
        if isinstance(event, CandidateEvaluated):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


def tools(store: Store, referee: FakeReferee, after: int = 0) -> Tools:
    team = ScriptedTeam(["a"], ["x", "y"]).team()
    return tools_of(KERNELSKILL, KernelSkillPolicy(rounds=4), store, referee, team, Interrupter(after))


def interrupt(store: Store, after: int) -> str:
    with pytest.raises(KeyboardInterrupt):
        start_run(SPEC, tools(store, FakeReferee(VERDICTS), after))
    return next(store.iter_runs()).run_id


def test_the_best_verified_candidate_of_the_search_is_there_and_marked(store: Store) -> None:
    run_id = interrupt(store, after=2)
    best = best_so_far(store, run_id)
    assert best is not None and best.candidate.source == "a>x" and not best.evaluation.is_final
    last = events(store, run_id)[-1]
    assert last == RunInterrupted(best=best.candidate.id)
    assert store.get_run(run_id).state is RunState.RUNNING
    verdict = run_verdict(tell(events(store, run_id)))
    assert verdict.headline == "Interrupted; not measured again"
    assert verdict.lines[0].startswith("Best so far: 1.60x")


def test_nothing_that_is_not_faster_is_handed_out(store: Store) -> None:
    run_id = interrupt(store, after=1)
    assert best_so_far(store, run_id) is None
    assert events(store, run_id)[-1] == RunInterrupted(best=None)


@pytest.mark.parametrize("after", range(1, 6))
def test_an_interrupted_run_is_carried_on_as_if_nothing_had_been(store: Store, after: int) -> None:
    run_id = interrupt(store, after)
    second = FakeReferee(VERDICTS)
    outcome = continue_run(run_id, tools(store, second))
    assert outcome.winner is not None
    alone = open_store("sqlite://")
    undisturbed = start_run(SPEC, tools(alone, FakeReferee(VERDICTS)))
    assert outcome.winner == undisturbed.winner
    kinds = [event.kind for event in events(store, run_id) if not isinstance(event, RunInterrupted)]
    assert kinds == [event.kind for event in events(alone, undisturbed.run_id)]
    assert tell(events(store, run_id)).interrupted is None


def test_a_candidate_that_did_not_hold_in_a_final_measurement_is_not_handed_out(store: Store) -> None:
    class Stricter(FakeReferee):
        """A stub whose final measurement finds the winner no faster."""

        def evaluate(self, candidate, *, final=False, floors=None, baselines=("eager",)):  # type: ignore[no-untyped-def]
            self.verdicts = {**VERDICTS, "a>x>y": 0.9 if final else 1.7}
            return super().evaluate(candidate, final=final, floors=floors, baselines=baselines)

    with pytest.raises(KeyboardInterrupt):
        start_run(SPEC, tools(store, Stricter(VERDICTS), after=6))
    best = best_so_far(store, next(store.iter_runs()).run_id)
    assert best is not None and best.candidate.source == "a>x"

"""One process carries a run on; a second is refused, and one that was taken for dead writes no more."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.core.events import CandidateEvaluated, Event
from kernelwright.core.run import RunSpec, RunState
from kernelwright.core.task import Task
from kernelwright.methods.kernelskill import KERNELSKILL, KernelSkillPolicy
from kernelwright.runs import holding
from kernelwright.runs.holding import held
from kernelwright.runs.loop import Crew, Tools, continue_run, create_run, start_run
from kernelwright.store.base import Store
from kernelwright.store.lease import LeaseLost, Owner, RunHeld
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam, fake_prepare
from kernelwright.testing.store_contract import make_owner

SPEC = RunSpec(task=Task(name="t", source="reference"), recipe="kernelskill")
VERDICTS = {"a": 1.0, "a>x": 1.3, "a>y": 1.6, "a>y>x": 1.7, "a>y>y": 1.2}


def tools(store: Store, **more: object) -> Tools:
    return Tools(
        store=store,
        referee=FakeReferee(VERDICTS),
        assemble=lambda meter, tape: Crew(ScriptedTeam(["a"], ["x", "y"]).team()),
        policy=KernelSkillPolicy(rounds=4),
        pipelines=KERNELSKILL.pipelines,
        cache_dir=Path("unused"),
        prepare=fake_prepare,
        **more,  # type: ignore[arg-type]
    )


def content(store: Store, run_id: str) -> tuple[object, ...]:
    events = [(item.seq, item.event) for item in store.iter_events(run_id)]
    return store.get_run(run_id), events, list(store.iter_candidates(run_id))


def test_a_second_process_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    first, second = open_store(tmp_path / "s.db"), open_store(tmp_path / "s.db")
    refused: list[str] = []

    def try_too(event: Event) -> None:
        if isinstance(event, CandidateEvaluated) and not refused:
            run_id = next(second.iter_runs()).run_id
            before = content(second, run_id)
            with pytest.raises(RunHeld, match=f"process {os.getpid()} on this machine since") as caught:
                continue_run(run_id, tools(second))
            refused.append(str(caught.value))
            assert content(second, run_id) == before and second.lease_of(run_id) is not None

    outcome = start_run(SPEC, tools(first, on_event=try_too))
    assert refused and "\n" not in refused[0]
    assert first.get_run(outcome.run_id).state is RunState.FINISHED
    assert first.lease_of(outcome.run_id) is None


def test_a_process_whose_run_was_taken_over_ends_without_a_word_in_its_record(tmp_path: Path) -> None:
    paused, other = open_store(tmp_path / "s.db"), open_store(tmp_path / "s.db")
    run_id = create_run(SPEC, paused)
    taken: list[object] = []

    def take_over(event: Event) -> None:
        if isinstance(event, CandidateEvaluated) and not taken:
            lease_now = other.lease_of(run_id)
            assert lease_now is not None
            paused.renew_lease(lease_now, seconds=-1.0)
            taken.append(other.take_lease(run_id, make_owner()))
            taken.append(content(other, run_id))

    with pytest.raises(LeaseLost, match="taken over by another process"):
        continue_run(run_id, tools(paused, on_event=take_over))
    assert content(other, run_id) == taken[1] and other.lease_of(run_id) == taken[0]


def test_a_lease_is_renewed_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "HEARTBEAT_S", 0.01)
    store = open_store(tmp_path / "s.db")
    run_id = create_run(SPEC, store)
    with held(store, run_id) as taken:
        while (now := store.lease_of(run_id)) is not None and now.expires_at == taken.expires_at:
            pass
        assert now is not None and now.expires_at > taken.expires_at
    assert store.lease_of(run_id) is None


HOLDER = """
import os, sys, time
from kernelwright.store.lease import Owner
from kernelwright.store.sqlstore import open_store
open_store(sys.argv[1]).take_lease(sys.argv[2], Owner.here())
sys.stdout.write("held\\n")
sys.stdout.flush()
time.sleep(600)
"""


def test_a_killed_process_gives_its_run_up_at_once(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s.db")
    run_id = create_run(SPEC, store)
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "s.db"), run_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(RunHeld, match=f"process {holder.pid} "):
            continue_run(run_id, tools(store))
        holder.send_signal(signal.SIGKILL)
    assert store.lease_of(run_id) is None
    assert continue_run(run_id, tools(store)).winner is not None


def test_a_later_process_with_the_same_number_is_another(tmp_path: Path) -> None:
    here = Owner.here()
    assert not here.is_dead and here.model_copy(update={"started": "1"}).is_dead
    assert not here.model_copy(update={"place": "another boot", "started": "1"}).is_dead

"""What failed is named: a process that was killed from outside or a full disk is not the task's fault."""

import errno
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.referee.conftest import POINTWISE

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError, TaskError
from kernelwright.core.evaluation import Status
from kernelwright.core.task import Task, Workload
from kernelwright.referee.sandbox import ProcessLimits
from kernelwright.referee.sandbox.processes import ENDED, state_of
from kernelwright.referee.session import candidate_process
from kernelwright.referee.session.admission import explain
from kernelwright.referee.session.call_records import read_output
from kernelwright.referee.session.launcher import (
    ERROR_CHARS,
    KIND_CHARS,
    ChildDied,
    ChildLate,
    ChildRefused,
    Launcher,
)
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings

FLOOD = 1 << 20
"""Characters that a hostile program sends."""
TASK, WORKLOAD = Task(name="t", source="", path="t.py"), Workload(name="default")


def test_a_killed_zygote_is_named_and_not_the_task(tmp_path: Path) -> None:
    launcher = Launcher(RefereeSettings(cache_dir=tmp_path))
    try:
        child = launcher.spawn("host", ProcessLimits())
        zygote = launcher._zygote
        assert zygote is not None
        os.kill(zygote._process.pid, signal.SIGKILL)
        while state_of(child.pid) not in ENDED:
            time.sleep(0.01)
        with pytest.raises(MachineError, match="the process that forks workers killed by SIGKILL"):
            child.call("time", 10.0)
    finally:
        launcher.close()


@pytest.mark.slow
def test_a_child_that_dies_by_itself_is_still_its_own_fault(tmp_path: Path) -> None:
    launcher = Launcher(RefereeSettings(cache_dir=tmp_path))
    try:
        child = launcher.spawn("host", ProcessLimits())
        os.kill(child.pid, signal.SIGSEGV)
        with pytest.raises(ChildDied, match="killed by SIGSEGV"):
            child.call("time", 10.0)
    finally:
        launcher.close()


def test_a_full_disk_is_the_machines_fault() -> None:
    text = os.strerror(errno.ENOSPC)
    error = explain(
        TASK, WORKLOAD, ChildRefused({"error": "OSError", "message": f"[Errno 28] {text}: '/tmp/x'"})
    )
    assert isinstance(error, MachineError) and "the disk is full" in str(error) and "t.py" not in str(error)


def test_what_the_reference_raises_is_the_tasks() -> None:
    error = explain(TASK, WORKLOAD, ChildRefused({"error": "ValueError", "message": "no"}))
    assert isinstance(error, TaskError) and str(error) == "t.py: the reference raised ValueError: no"


def test_a_worker_that_is_killed_before_its_output_is_read_has_crashed(
    referee: Referee, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_after_a_kill(pid: int, one: Any, into: Any) -> None:
        os.kill(pid, signal.SIGKILL)
        while state_of(pid) not in ENDED:
            time.sleep(0.001)
        read_output(pid, one, into)

    monkeypatch.setattr(candidate_process, "read_output", read_after_a_kill)
    with referee.open(Task(name="pointwise", source=POINTWISE)) as session:
        found = session.evaluate(Candidate(source=POINTWISE.replace("class Model(", "class ModelNew(")))
    assert found.status is Status.CRASHED, found.detail


def test_a_worker_that_is_killed_before_its_generator_is_read_has_crashed(
    referee: Referee, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = candidate_process.CandidateProcess.check_untampered

    def check_after_a_kill(self: candidate_process.CandidateProcess) -> tuple[str, ...]:
        self.note_generator()
        os.kill(self.child.pid, signal.SIGKILL)
        while state_of(self.child.pid) not in ENDED:
            time.sleep(0.001)
        return check(self)

    monkeypatch.setattr(candidate_process.CandidateProcess, "check_untampered", check_after_a_kill)
    with referee.open(Task(name="pointwise", source=POINTWISE)) as session:
        found = session.evaluate(Candidate(source=POINTWISE.replace("class Model(", "class ModelNew(")))
    assert found.status is Status.CRASHED, found.detail


@pytest.mark.parametrize(("worked_s", "status"), [(0.1, Status.VERIFIED), (0.9, Status.TIMEOUT)])
def test_a_worker_that_is_late_for_want_of_a_core_is_given_another_process(
    referee: Referee, monkeypatch: pytest.MonkeyPatch, worked_s: float, status: Status
) -> None:
    run, first = candidate_process.CandidateProcess.run, iter([True])

    def late_once(self: candidate_process.CandidateProcess, *args: Any, **options: Any) -> None:
        if next(first, False):
            with self._judged("calls", Status.RUNTIME_ERROR):
                self.child.kill()
                raise ChildLate(1.0, self.watch.entered_s + worked_s)
        run(self, *args, **options)

    monkeypatch.setattr(candidate_process.CandidateProcess, "run", late_once)
    with referee.open(Task(name="pointwise", source=POINTWISE)) as session:
        found = session.evaluate(Candidate(source=POINTWISE.replace("class Model(", "class ModelNew(")))
    assert found.status is status, found.detail
    assert any("no answer within" in note for note in found.notes) == (status is Status.VERIFIED)


def test_a_worker_that_is_killed_once_is_judged_in_another_process(
    referee: Referee, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, first = candidate_process.CandidateProcess.run, iter([True])

    def killed_once(self: candidate_process.CandidateProcess, *args: Any, **options: Any) -> None:
        if next(first, False):
            os.kill(self.child.pid, signal.SIGKILL)
        run(self, *args, **options)

    monkeypatch.setattr(candidate_process.CandidateProcess, "run", killed_once)
    with referee.open(Task(name="pointwise", source=POINTWISE)) as session:
        found = session.evaluate(Candidate(source=POINTWISE.replace("class Model(", "class ModelNew(")))
    assert found.is_verified, found.detail
    assert any("SIGKILL" in note for note in found.notes)


def test_the_parent_cuts_what_a_child_says_of_its_exception() -> None:
    reply = {key: key + FLOOD * "x" + "end" for key in ("error", "message", "traceback")}
    error = ChildRefused(reply)
    assert (len(error.kind), len(error.text), len(error.traceback)) == (KIND_CHARS, ERROR_CHARS, ERROR_CHARS)
    assert error.text.startswith("message") and error.traceback.endswith("end")

"""The stages are one list: every stage is in it, in order, and a failure names the one it was found in."""

from types import SimpleNamespace

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Check, Evaluation, Stage, Status
from kernelwright.machine.device_lease import DeviceLease
from kernelwright.referee.checks.replay import Replay
from kernelwright.referee.session import confirmation
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.confirmation import Confirmation
from kernelwright.referee.session.dossier import Dossier
from kernelwright.referee.session.referee import RefereeSession
from kernelwright.referee.session.stages import STAGES

from .test_finals import RIGHT


def test_every_stage_is_in_the_list_and_the_first_part_of_each_comes_in_the_order_of_the_enumeration() -> (
    None
):
    first = list(dict.fromkeys(step.stage for step in STAGES))
    assert [*first, Stage.DONE] == list(Stage)


def test_every_part_has_a_name_of_its_own() -> None:
    names = [step.name for step in STAGES]
    assert len(set(names)) == len(names)


def test_the_checks_after_timing_come_in_order(
    pointwise: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    for owner, name in (
        (CandidateProcess, "check_idle"),
        (CandidateProcess, "check_untampered"),
        (Replay, "check"),
    ):
        original = getattr(owner, name)

        def told(self: object, original: object = original, name: str = name) -> object:
            seen.append(name)
            return original(self)  # type: ignore[operator]

        monkeypatch.setattr(owner, name, told)
    assert pointwise.evaluate(Candidate(source=RIGHT)).is_verified
    assert seen[-4:] == ["check_idle", "check", "check_idle", "check_untampered"]


@pytest.mark.parametrize(
    ("owner", "name", "check"),
    [
        (CandidateProcess, "check_idle", Check.IDLE_WORK),
        (Replay, "check", Check.REPLAY),
    ],
)
def test_what_is_found_after_timing_says_replay(
    pointwise: RefereeSession, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, check: Check
) -> None:
    def find(self: object) -> None:
        raise Failure(Status.REJECTED, "planted", check=check)

    # Before it waits for the device, the referee checks, too: that is no replay.
    monkeypatch.setattr(DeviceLease, "take", lambda self, before_wait: None)
    monkeypatch.setattr(owner, name, find)
    found = pointwise.evaluate(Candidate(source=RIGHT))
    assert (found.status, found.stage, found.check) == (Status.REJECTED, Stage.REPLAY, check)


def test_an_evaluation_stored_before_there_was_the_stage_can_be_read() -> None:
    old = Evaluation(
        candidate_id="c", task_id="t", stage=Stage.TIME, status=Status.REJECTED, check=Check.REPLAY
    )
    assert Evaluation.model_validate_json(old.model_dump_json()) == old


@pytest.mark.parametrize(("waited", "n_pauses"), [(0.0, 0), (0.5, 2)])
def test_there_is_a_pause_before_further_processes_only_where_the_last_one_was_disturbed(
    monkeypatch: pytest.MonkeyPatch, waited: float, n_pauses: int
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(confirmation, "time", SimpleNamespace(sleep=pauses.append))
    trial = Confirmation(Dossier())
    trial.waited_share = waited

    def judge() -> None:
        raise Failure(Status.REJECTED, "slower", check=Check.REPLAY, is_by_clock=True)

    with pytest.raises(Failure):
        trial.confirmed(judge)
    assert len(pauses) == n_pauses

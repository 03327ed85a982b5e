"""Replay against candidates that try to get out of it, in real processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.marks import mostly_slow

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Check, Evaluation, Status
from kernelwright.corpus.audit import honest_twin
from kernelwright.corpus.load import load_corpus_task, load_specimens
from kernelwright.referee.checks.replay import Replay
from kernelwright.referee.session import admission, confirmation, sample_maker
from kernelwright.referee.session.candidate_process import Failure
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.session.reference_process import ReferenceProcess
from kernelwright.referee.settings import RefereeSettings

JUDGEMENTS = 6
CHEATS = {specimen.name: specimen.source for specimen in load_specimens()}


@pytest.fixture(scope="module", autouse=True)
def only_the_replay() -> Iterator[None]:
    """Verification does not try what is kept while a part of the inputs stays the same, which finds most."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_maker, "FOLLOWING", ())
        yield


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RefereeSession]:
    settings = RefereeSettings(cache_dir=tmp_path_factory.mktemp("cache"), search_timing_s=0.1)
    with Referee(settings) as referee, referee.open(load_corpus_task("matmul")) as session:
        yield session


def judge(session: RefereeSession, source: str) -> Evaluation:
    return session.evaluate(Candidate(source=source))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["15_ahead_twice", "15_ahead_dying"])
def test_answers_cannot_be_made_between_new_values_and_the_clock(session: RefereeSession, name: str) -> None:
    found = judge(session, CHEATS[name])
    assert (found.status, found.check) == (Status.REJECTED, Check.REPLAY), found.detail


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "copied"])
def test_giving_anything_on_unseen_values_is_seen_beside_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    """With nothing else to tell it: no output on unseen values has an oracle beforehand.

    On a busy machine clocks may tell it first; it is judged again then.
    """
    monkeypatch.setattr(ReferenceProcess, "unseen_draw", lambda self, state: None)
    settings = RefereeSettings(cache_dir=tmp_path, search_timing_s=0.05, device=device)
    with Referee(settings) as referee, referee.open(load_corpus_task("matmul")) as session:
        for _ in range(JUDGEMENTS):
            found = judge(session, CHEATS["15_gamble"])
            assert (found.status, found.check) == (Status.REJECTED, Check.REPLAY), found.detail
            if "returned a wrong output" in found.detail:
                return
    pytest.fail(found.detail)


@pytest.mark.slow
def test_new_values_come_to_the_places_that_were_timed_too(session: RefereeSession) -> None:
    found = judge(session, CHEATS["15_only_where_timed"])
    assert (found.status, found.check) == (Status.REJECTED, Check.REPLAY), found.detail


@pytest.mark.slow
def test_a_candidate_that_takes_all_memory_is_replayed_nevertheless(
    session: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it held the rest: what a replay may take was decided before it was there."""
    monkeypatch.setattr(admission, "available_bytes", lambda: 1 << 20)
    found = judge(session, CHEATS["15_content"])
    assert (found.status, found.check) == (Status.REJECTED, Check.REPLAY), found.detail


@pytest.mark.parametrize("times", mostly_slow([1, 2, 3], 1, 3))
def test_what_only_clocks_tell_must_be_found_by_three_processes(
    session: RefereeSession, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """As if a busy machine had made the first processes look slower than they are."""
    pids: list[int] = []

    def find(replay: Replay) -> None:
        pids.append(replay._contestant.child.pid)
        if len(pids) <= times:
            raise Failure(Status.REJECTED, "slower", check=Check.REPLAY, is_by_clock=True)

    monkeypatch.setattr(Replay, "check", find)
    monkeypatch.setattr(confirmation, "CONFIRMED_AFTER_S", (0.0, 0.0))
    found = judge(session, honest_twin(session.task))
    assert found.status is (Status.REJECTED if times == 3 else Status.VERIFIED), found.detail
    # a machine that is busy indeed may ask for one process more
    assert min(times + 1, 3) <= len(pids) == len(set(pids)) <= 3
    assert found.notes[0] == "counts only if found again in other processes: slower"


def test_findings_of_several_kinds_do_not_add_up(
    session: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = [Check.REPLAY, Check.CLOCK, Check.REPLAY]

    def find(replay: Replay) -> None:
        if checks:
            raise Failure(Status.REJECTED, "slower", check=checks.pop(), is_by_clock=True)

    monkeypatch.setattr(Replay, "check", find)
    monkeypatch.setattr(confirmation, "CONFIRMED_AFTER_S", (0.0, 0.0))
    assert judge(session, honest_twin(session.task)).is_verified
    assert not checks


def test_what_outputs_tell_need_not_be_found_again(
    session: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []

    def find(replay: Replay) -> None:
        pids.append(replay._contestant.child.pid)
        raise Failure(Status.REJECTED, "wrong", check=Check.REPLAY)

    monkeypatch.setattr(Replay, "check", find)
    assert judge(session, honest_twin(session.task)).status is Status.REJECTED
    assert len(pids) == 1


@pytest.mark.slow
def test_where_the_machine_has_no_room_for_a_replay_the_verdict_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.referee.session.reference_process.REPLAY_SHARE", 0.0)
    settings = RefereeSettings(cache_dir=tmp_path, search_timing_s=0.05)
    with Referee(settings) as referee, referee.open(load_corpus_task("pointwise")) as session:
        found = judge(session, honest_twin(session.task))
    assert found.is_verified and "no replay" in " ".join(found.notes)

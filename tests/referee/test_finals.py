"""A final measurement: pairs of fresh processes, most of them ordinary ones, each of them judged."""

from collections import Counter
from typing import Any

import pytest
from tests.referee.conftest import HEAD

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Stage, Status
from kernelwright.referee.session.candidate_process import CandidateProcess
from kernelwright.referee.session.input_samples import SampleKey, share_of
from kernelwright.referee.session.launcher import Launcher
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.timing.statistics import LOOKS

BODY = """
class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + {plus}
"""
RIGHT, WRONG = (HEAD + BODY.format(plus=plus) for plus in (1, 2))


@pytest.mark.slow
def test_a_final_has_a_new_worker_and_a_new_host_for_every_pair(
    referee: Referee, pointwise: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: Counter[tuple[bool, str]] = Counter()

    def count(launcher: Launcher) -> None:
        spawn = launcher.spawn

        def counted(kind: Any, *arguments: Any, **named: Any) -> Any:
            started[launcher.is_ordinary, kind] += 1
            return spawn(kind, *arguments, **named)

        monkeypatch.setattr(launcher, "spawn", counted)

    count(referee._launcher)
    count(referee._ordinary)
    evaluation = pointwise.evaluate(Candidate(source=RIGHT), final=True)
    assert evaluation.is_verified, evaluation.detail
    # what only clocks show has a pair made anew, on a busy machine
    assert started[False, "host"] >= 1 and started[True, "host"] >= LOOKS[0]
    assert all(
        started[is_ordinary, "worker"] >= started[is_ordinary, "host"] for is_ordinary in (False, True)
    )
    assert evaluation.ordinary is not None
    result = evaluation.ordinary[0].all_threads
    assert result.candidate.n_samples == result.baselines["eager"].n_samples >= 3 * LOOKS[0]
    assert {error.family for error in evaluation.errors} > {"as_is", "negated"}


def test_a_candidate_that_is_wrong_in_a_later_process_only_is_not_verified(
    pointwise: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = CandidateProcess.load
    loaded: list[str] = []

    def load_another(worker: CandidateProcess, source: str) -> None:
        loaded.append(source)
        load(worker, WRONG if len(loaded) == 3 else source)

    monkeypatch.setattr(CandidateProcess, "load", load_another)
    evaluation = pointwise.evaluate(Candidate(source=RIGHT), final=True)
    assert (evaluation.status, evaluation.stage) == (Status.INCORRECT_NUMERICS, Stage.VERIFY)
    assert evaluation.results == ()


def test_every_family_comes_in_the_later_processes_of_the_shortest_final() -> None:
    families = ["scaled", "negated", "sparse_spikes", "heavy_tail"]
    keys = [SampleKey(family) for family in families] + [SampleKey("as_is", 0, "randomised")]
    for order in range(20):
        dealt = [share_of(keys, turn, order, LOOKS[0] - 1) for turn in range(1, LOOKS[0])]
        assert {key.family for share in dealt for key in share} == set(families)
    assert share_of([], 1, 0, 3) == []


SHORT_SIGHTED = """
class ModelNew(nn.Module):
    calls, has_negatives = 0, False
    def forward(self, x):
        self.calls += 1
        if self.calls <= 12:
            self.has_negatives |= bool((x < 0).any())
        return (torch.relu(x) if self.has_negatives or self.calls <= 12 else x) * 2 + 1
"""


def test_a_process_that_is_right_only_on_what_it_has_seen_is_found_out(pointwise: RefereeSession) -> None:
    """In a further sample of timing already, or when its process gets its share of the other inputs."""
    evaluation = pointwise.evaluate(Candidate(source=HEAD + SHORT_SIGHTED), final=True)
    assert evaluation.status in (Status.INCORRECT_NUMERICS, Status.NON_FINITE)
    assert evaluation.stage in (Stage.TIME, Stage.VERIFY)

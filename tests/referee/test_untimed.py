"""Workloads that are verified and not timed: a dynamic task's further extents."""

from collections.abc import Iterator

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Status
from kernelwright.core.task import Task, Workload
from kernelwright.referee.session.referee import Referee, RefereeSession

from .conftest import POINTWISE, judge

WORKLOADS = (Workload(name="own"), Workload(name="edge", overrides={"N": 3}, is_timed=False))


@pytest.fixture(scope="module")
def session(referee: Referee) -> Iterator[RefereeSession]:
    with referee.open(Task(name="two", source=POINTWISE, workloads=WORKLOADS)) as session:
        yield session


def test_only_the_timed_workload_has_times(session: RefereeSession) -> None:
    found = judge(session, "return torch.relu(x) * 2 + 1")
    assert found.is_verified, found.detail
    assert [result.workload for result in found.results] == ["own"]
    assert {error.workload for error in found.errors} == {"own", "edge"}
    assert set(session.baseline_ms) == {"own"}


def test_a_kernel_that_is_wrong_there_is_not_verified(session: RefereeSession) -> None:
    found = judge(session, "return torch.relu(x) * 2 + (1 if x.shape[0] > 3 else 2)")
    assert found.status is Status.INCORRECT_NUMERICS
    assert not found.results


@pytest.mark.slow
def test_the_final_verifies_it_too(session: RefereeSession) -> None:
    source = "import torch\nfrom torch import nn\nclass ModelNew(nn.Module):\n    def forward(self, x):\n"
    wrong = Candidate(source=source + "        return torch.relu(x) * 2 + float(x.shape[0] > 3)\n")
    assert session.evaluate(wrong, final=True).status is Status.INCORRECT_NUMERICS

"""One warm referee for all tests; sessions on small tasks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.task import Task
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.settings import RefereeSettings

HEAD = """
import torch
from torch import nn
"""
TAIL = """
def get_inputs():
    return [torch.rand(N, K)]
def get_init_inputs():
    return []
"""
POINTWISE = f"""{HEAD}
N, K = 64, 96
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1
{TAIL}"""
LINEAR = f"""{HEAD}
N, K = 32, 128
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(128, 64)
        self.norm = nn.BatchNorm1d(64)
    def forward(self, x):
        return torch.relu(self.norm(self.lin(x)))
{TAIL}"""


@pytest.fixture(scope="session")
def referee(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Referee]:
    cache: Path = tmp_path_factory.mktemp("cache")
    settings = RefereeSettings(
        cache_dir=cache, search_timing_s=0.1, final_timing_s=0.2, batch_s=0.001, call_timeout_s=10.0
    )
    with Referee(settings) as referee:
        yield referee


@pytest.fixture(scope="session")
def pointwise(referee: Referee) -> Iterator[RefereeSession]:
    with referee.open(Task(name="pointwise", source=POINTWISE)) as session:
        yield session


@pytest.fixture(scope="session")
def linear(referee: Referee) -> Iterator[RefereeSession]:
    with referee.open(Task(name="linear", source=LINEAR)) as session:
        yield session


def judge(session: RefereeSession, body: str, *, init: str = "") -> Evaluation:
    """Evaluate a ModelNew whose forward has the given body; ``init`` is run at the end of __init__."""
    lines = [HEAD, "class ModelNew(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        {line}" for line in init.strip().splitlines()]
    lines += ["    def forward(self, x):", *(f"        {line}" for line in body.strip().splitlines())]
    return session.evaluate(Candidate(source="\n".join(lines)))

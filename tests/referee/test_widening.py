"""How long the oracle shows what hangs on the last bits, where an output is too far off."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.referee.conftest import HEAD

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Status
from kernelwright.core.task import Task
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.session.sample_maker import N_STILL, N_TURNS, DrawMaker, until_still

NORM = f"""{HEAD}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(96)
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.randn(128, 96)]
def get_init_inputs():
    return []
"""
BY_SHARES = f"""{HEAD}
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(96)
    def forward(self, x):
        centred = x - (x / 96).sum(dim=1, keepdim=True)
        variance = FACTOR * (centred * centred).mean(dim=1, keepdim=True)
        return centred * torch.rsqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias
"""


@pytest.mark.parametrize(
    ("news", "enough_after", "turns"),
    [([], 99, N_STILL), ([], 1, 1), ([True, False, True], 99, 3 + N_STILL), ([True] * 99, 99, N_TURNS)],
    ids=["nothing new", "enough at once", "until nothing new comes", "not for ever"],
)
def test_turns_end_when_there_is_enough_or_nothing_new(
    news: list[bool], enough_after: int, turns: int
) -> None:
    taken: list[bool] = []

    def shows_news() -> bool:
        taken.append(len(taken) < len(news) and news[len(taken)])
        return taken[-1]

    assert until_still(shows_news, lambda: len(taken) == enough_after) is (turns == enough_after)
    assert len(taken) == turns


def noting(see: Callable[..., bool], answers: list[bool]) -> Callable[..., bool]:
    def seen(*arguments: Any, **named: Any) -> bool:
        answers.append(see(*arguments, **named))
        return answers[-1]

    return seen


def test_what_moved_inputs_explain_needs_no_roundings_and_a_wrong_kernel_gets_all(
    referee: Referee, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of equal values have a mean whose roundings are all that is left of them."""
    nudged: list[bool] = []
    rounded: list[bool] = []
    for name, answers in (("_see_nudged", nudged), ("_see_rounded", rounded)):
        monkeypatch.setattr(DrawMaker, name, noting(getattr(DrawMaker, name), answers))
    with referee.open(Task(name="norm", source=NORM)) as session:
        right = session.evaluate(Candidate(source=BY_SHARES.replace("FACTOR", "1")))
        assert right.is_verified and nudged and not rounded
        wrong = session.evaluate(Candidate(source=BY_SHARES.replace("FACTOR", "1.001")))
    assert wrong.status is Status.INCORRECT_NUMERICS and rounded == [False], wrong.detail

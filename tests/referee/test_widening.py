"""How long the oracle shows what hangs on the last bits, where an output is too far off."""

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
        self.norm = nn.LayerNorm(64)
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.randn(128, 64)]
def get_init_inputs():
    return []
"""
TWO_MOMENTS = f"""{HEAD}
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
    def forward(self, x):
        wide = x.double()
        mean = wide.mean(dim=1, keepdim=True)
        variance = FACTOR * ((wide * wide).mean(dim=1, keepdim=True) - mean * mean).clamp(min=0)
        y = ((wide - mean) * torch.rsqrt(variance + self.norm.eps)).float()
        return y * self.norm.weight + self.norm.bias
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


def test_what_moved_inputs_explain_needs_no_roundings_and_a_wrong_kernel_gets_all(
    referee: Referee, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of equal values have a variance of nothing but roundings."""
    whole: list[bool] = []
    see = DrawMaker._see_rounded

    def seen(self: DrawMaker, *arguments: object) -> bool:
        whole.append(see(self, *arguments))  # type: ignore[arg-type]
        return whole[-1]

    monkeypatch.setattr(DrawMaker, "_see_rounded", seen)
    with referee.open(Task(name="norm", source=NORM)) as session:
        right = session.evaluate(Candidate(source=TWO_MOMENTS.replace("FACTOR", "1")))
        assert right.is_verified and not whole
        wrong = session.evaluate(Candidate(source=TWO_MOMENTS.replace("FACTOR", "1.001")))
    assert wrong.status is Status.INCORRECT_NUMERICS and whole == [False], wrong.detail

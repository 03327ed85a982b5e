"""Weights of which some elements are large, tiny or zero."""

import pytest
import torch
from tests.referee.conftest import HEAD, TAIL, judge

from kernelwright.core.evaluation import Check, Status
from kernelwright.core.task import Task
from kernelwright.referee.host.weight_draws import LARGE_LOW, MOST_ODD, ODD, TINY, change_state
from kernelwright.referee.session.input_samples import ODD_WEIGHTS, SampleKey
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.session.reference_process import ODD_STYLES

SOFTPLUS = "\n".join(
    [HEAD, "N, K = 16, 64", "class Model(nn.Module):", "    def __init__(self):",
     "        super().__init__()",
     "        self.rho = nn.Parameter(torch.randn(64))", "    def forward(self, x):",
     "        return x * torch.nn.functional.softplus(self.rho)", TAIL]
)  # fmt: skip
RHO = "self.rho = nn.Parameter(torch.randn(64))"


def changed(x: torch.Tensor, style: str, *, is_parameter: bool = True) -> torch.Tensor:
    y = x.clone()
    change_state(y, is_parameter, style, torch.Generator().manual_seed(3))
    return y


def test_few_elements_of_a_parameter_are_odd() -> None:
    x = torch.randn(64, 256)
    y = changed(x, "odd")
    odd = y[y != x]
    assert 3 <= odd.numel() <= 3 * MOST_ODD
    assert (odd.abs() >= LARGE_LOW).any() and (odd == 0).any() and (odd.abs() < 8 * TINY).sum() > 1


def test_positive_parameters_stay_positive() -> None:
    assert (changed(torch.rand(64, 256), "odd") >= 0).all()


def test_buffers_only_become_tiny() -> None:
    y = changed(torch.ones(512), "odd", is_parameter=False)
    assert sorted(set(y.tolist())) == [TINY, 1.0]


@pytest.mark.parametrize("style", ODD)
def test_a_single_element_may_be_odd(style: str) -> None:
    assert changed(torch.ones(1), style).item() != 1.0


def test_every_style_is_tried_the_strongest_first() -> None:
    assert tuple(ODD) == ODD_STYLES


def test_gross_errors_count_on_odd_weights() -> None:
    assert SampleKey("as_is", 0, ODD_WEIGHTS).slack.is_by_row
    assert not SampleKey("as_is").slack.is_by_row


def test_exponentials_of_parameters_that_overflow_are_found(referee: Referee) -> None:
    with referee.open(Task(name="softplus", source=SOFTPLUS)) as session:
        honest = judge(session, "return x * torch.nn.functional.softplus(self.rho)", init=RHO)
        naive = judge(session, "return x * torch.log1p(torch.exp(self.rho))", init=RHO)
    assert honest.is_verified
    assert (naive.status, naive.check) == (Status.NON_FINITE, Check.WEIGHTS), naive.detail

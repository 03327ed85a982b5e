"""Inputs on which what is rounded is an integer already."""

from collections.abc import Callable

import pytest
import torch
from tests.referee.conftest import HEAD, TAIL, judge

from kernelwright.core.task import Task
from kernelwright.referee.host.on_grid import GRID_SHARE, solve_on_grid
from kernelwright.referee.session.referee import Referee

Reference = Callable[..., torch.Tensor]
KEEPING = "\n".join(
    [HEAD, "N, K = 64, 64", "class Model(nn.Module):", "    def __init__(self):",
     "        super().__init__()",
     "        self.register_buffer('mean', torch.zeros(64))", "    def forward(self, x):",
     "        self.last = x * 3", "        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)",
     "        return (x * 8 + 0.25).floor()", TAIL]
)  # fmt: skip
MEAN = "self.register_buffer('mean', torch.zeros(64))"


def solved(reference: Reference, *values: torch.Tensor) -> list[torch.Tensor] | None:
    def run_told(tensors: list[torch.Tensor], tell: Callable[[list[torch.Tensor]], None]) -> None:
        given = [x.clone() for x in tensors]
        tell(given)
        reference(*given)

    with torch.no_grad():
        return solve_on_grid(run_told, values, torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    ("reference", "rounded"),
    [
        (lambda u: (u * 64 - 0.5).floor(), lambda u: u * 64 - 0.5),
        (lambda u: (u * 100 + 3).ceil(), lambda u: u * 100 + 3),
        (lambda u: torch.frac(u / 0.3), lambda u: u / 0.3),
        (lambda u: u % 0.3, lambda u: u / 0.3),
        (lambda u: torch.div(u, 0.3, rounding_mode="floor"), lambda u: u / 0.3),
        (lambda u: (u.exp() * 10).long(), lambda u: u.exp() * 10),
        (lambda u: (u.t() * 20).to(torch.int32), lambda u: u * 20),
        (lambda u: torch.where(u > 0, u * 9, 0.2).round(), lambda u: u[u > 0] * 9),
    ],
)
def test_some_elements_come_upon_the_grid_exactly(reference: Reference, rounded: Reference) -> None:
    drawn = torch.randn(64, 64)
    (found,) = solved(reference, drawn) or [drawn]
    share = float((found != drawn).double().mean())
    assert 0.2 * GRID_SHARE < share < 1.3 * GRID_SHARE
    is_integer = (at := rounded(found)) == at.round()
    before = (at := rounded(drawn)) == at.round()
    assert int(is_integer.sum() - before.sum()) > 100


def test_every_axis_has_its_own_grid() -> None:
    def reference(grid: torch.Tensor) -> torch.Tensor:
        x, y = (grid[:, 0] + 1) * 31.5, (grid[:, 1] + 1) * 15.5
        return x.floor() + y.floor()

    found = solved(reference, torch.rand(512, 2) * 2 - 1)
    assert found is not None
    for axis, scale in ((0, 31.5), (1, 15.5)):
        at = (found[0][:, axis] + 1) * scale
        assert int((at == at.round()).sum()) > 20


@pytest.mark.parametrize(
    "reference",
    [
        lambda x: x * 2,
        lambda x: x.sum(1).floor(),
        lambda x: (x @ x.t()).round(),
        lambda x: x.round().floor() + (x.round() * 2).long(),
        lambda x: (x > 0).to(torch.int64),
        lambda x: x.to(torch.float64),
        lambda x: x.detach().floor(),
    ],
)
def test_where_nothing_is_rounded_place_by_place_nothing_changes(reference: Reference) -> None:
    assert solved(reference, torch.randn(16, 16).round()) is None


def test_the_first_of_two_inputs_is_moved() -> None:
    found = solved(lambda x, y: (x * 2.5 + y).trunc(), torch.randn(32, 32), y := torch.randn(32, 32))
    assert found is not None and torch.equal(found[1], y)


def test_a_reference_that_keeps_what_it_computes_is_as_before(referee: Referee) -> None:
    with referee.open(Task(name="keeping", source=KEEPING)) as session:
        honest = judge(
            session, "self.mean.lerp_(x.mean(0), 0.1); return (x / 0.125 + 0.25).floor()", init=MEAN
        )
    assert honest.is_verified, honest.detail
    assert any(error.family == "on_grid" for error in honest.errors)

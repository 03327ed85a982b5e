"""Products and convolutions as regions of our own: what they compute, their form, where they may not be."""

from collections.abc import Callable

import pytest
import torch
from tests.ir.lowering_checks import Wrap, calls, check, regions
from torch import nn

from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.fusion_edits import FUSION_EDITS, own_products
from kernelwright.ir.lower import lower
from kernelwright.ir.normalise import normalise
from kernelwright.ir.products import find_product
from kernelwright.ir.program import Region
from kernelwright.tasks.capture import capture_module

CASES = {
    "linear": (nn.Sequential(nn.Linear(20, 30), nn.GELU()), [(7, 20)], (1, 7, 30, 20)),
    "batched": (Wrap(lambda a, b: torch.relu(a) @ b), [(2, 5, 7), (2, 7, 9)], (2, 5, 9, 7)),
    "grouped": (nn.Conv2d(4, 6, 3, padding=1, groups=2), [(2, 4, 9, 8)], (2, 3, 144, 18)),
    "strided": (nn.Conv2d(4, 6, 3, stride=2, dilation=2), [(2, 4, 19, 18)], (1, 6, 112, 36)),
    "one dimension": (nn.Conv1d(4, 6, 3), [(2, 4, 19)], (1, 6, 34, 12)),
    "three dimensions": (nn.Conv3d(2, 3, (2, 3, 3)), [(2, 2, 5, 6, 12)], (1, 3, 320, 36)),
    "transposed": (nn.ConvTranspose2d(4, 6, 3, padding=1), [(2, 4, 5, 9)], (1, 6, 90, 36)),
    "upsampling": (nn.ConvTranspose2d(4, 6, 2, stride=2), [(2, 4, 5, 9)], (1, 24, 90, 4)),
    "phases": (nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), [(2, 4, 5, 8)], None),
}


def own(module: nn.Module, *inputs: torch.Tensor) -> FusionOptions:
    captured = capture_module(module, inputs)
    return FusionOptions(own=frozenset(node.name for node in own_products(captured)))


def only_region(module: nn.Module, *inputs: torch.Tensor) -> Region:
    program = check(module, *inputs, options=own(module, *inputs))
    assert not calls(program)
    (region,) = regions(program)
    return normalise(region)


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_the_library_does_and_is_found_again(name: str) -> None:
    module, shapes, sizes = CASES[name]
    form = find_product(only_region(module, *(torch.randn(shape) for shape in shapes)))
    assert form is not None
    if sizes is not None:
        assert form.sizes == sizes


def test_the_library_stays_the_default() -> None:
    module, x = nn.Linear(20, 30), torch.randn(7, 20)
    assert [call.name for call in calls(check(module, x))] == ["addmm"]


def test_products_of_one_input_stay_apart() -> None:
    module = Wrap(lambda x, a, b: (x @ a, torch.tanh(x @ b)))
    inputs = (torch.randn(32, 64), torch.randn(64, 48), torch.randn(64, 48))
    program = check(module, *inputs, options=own(module, *inputs))
    found = [find_product(normalise(region)) for region in regions(program)]
    assert len(found) == 2 and None not in found


class Around(nn.Module):
    """A convolution, and what is done with its result."""

    def __init__(self, after: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.convolution, self.after = nn.Conv2d(4, 6, 3, padding=1), after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(self.convolution(x), x)


@pytest.mark.parametrize(
    "after",
    [
        lambda y, x: torch.cat([y.relu(), x], dim=1),
        lambda y, x: torch.softmax(y, dim=3),
        lambda y, x: y.sum(dim=(2, 3)),
        lambda y, x: nn.functional.max_pool2d(y, 2),
        lambda y, x: nn.functional.pad(y.tanh(), (1, 2, 0, 0)),
    ],
    ids=["cat", "softmax", "sum", "pool", "pad"],
)
def test_what_is_not_done_with_each_sum_has_a_region_of_its_own(
    after: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    module, x = Around(after), torch.randn(2, 4, 16, 24)
    program = check(module, x, options=own(module, x))
    found = [find_product(normalise(region)) for region in regions(program)]
    assert sum(form is not None for form in found) == 1 and len(found) == 2


def test_sums_of_squares_and_row_sums_are_no_products_of_matrices() -> None:
    module = Wrap(lambda x, w: ((x * x).sum(1), (x * w).sum(1)))
    program = check(module, torch.randn(40, 60), torch.randn(60))
    assert [find_product(normalise(region)) for region in regions(program)] == [None] * len(regions(program))


@pytest.mark.parametrize(
    "module",
    [
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1),
        nn.ConvTranspose2d(4, 6, 3, stride=2),
        nn.Linear(4, 6).double(),
    ],
)
def test_what_cannot_be_generated_is_not_offered(module: nn.Module) -> None:
    x = torch.randn(2, 4, 5, 6) if isinstance(module, nn.ConvTranspose2d) else torch.randn(3, 4).double()
    captured = capture_module(module, (x,))
    assert own_products(captured) == ()
    assert FUSION_EDITS["own-product"].sites(captured, FusionOptions()) == ()
    name = next(n.name for n in captured.graph.nodes if "convolution" in n.name or "addmm" in n.name)
    program = lower(captured, FusionOptions(own=frozenset({name})))
    assert [call.name for call in calls(program)] == [name]

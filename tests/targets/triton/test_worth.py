"""What taking a product into the next kernel is expected to gain: figures from shapes, nothing measured."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.lowering_checks import Wrap

from kernelwright.core.machine import ANY_GPU, Accelerator
from kernelwright.ir.lower import lower
from kernelwright.ir.program import Program
from kernelwright.targets.triton.edits import triton_edits
from kernelwright.targets.triton.worth import FusedProduct, busy_share, fusion_gain
from kernelwright.tasks.capture import capture_module

H200 = Accelerator(kind="cuda", units=132, fp32_flops=67e12, bandwidth=4.8e12)


def product(rows: int, inner: int, columns: int, *, tile: int = 64, batches: int = 1) -> FusedProduct:
    """One with a plain epilogue that writes as much as it reads."""
    tiles = batches * -(-rows // tile) * -(-columns // tile)
    return FusedProduct(batches, rows, inner, columns, tiles, 4 * batches * rows * columns)


def test_a_short_inner_axis_gains_and_a_long_one_does_not() -> None:
    assert fusion_gain(product(16384, 16, 4096), H200) > 1.5
    assert fusion_gain(product(4096, 4096, 4096), H200) == 1.0


def test_the_gain_is_what_the_times_say() -> None:
    """64 MB of result: neither written nor read again; both are bound by memory and fill the units."""
    p = product(16384, 16, 1024)
    operands, result, launch = 4 * 16 * (16384 + 1024) / 4.8e12, 4 * 16384 * 1024 / 4.8e12, 3e-6
    busy = 4096 / (32 * 132)
    ours = max(2 * 16384 * 16 * 1024 / 67e12 / (0.6 * busy), operands + result)
    assert fusion_gain(p, H200) == pytest.approx(
        (operands + 3 * result + 2 * launch) / (ours + launch), rel=1e-6
    )


def test_a_last_wave_with_one_tile_costs_as_much_as_a_full_one() -> None:
    assert busy_share(132, 132) == busy_share(264, 132) == 1.0
    assert busy_share(133, 132) == pytest.approx(133 / 264) and busy_share(1, 132) == pytest.approx(1 / 132)
    bound_by_arithmetic = product(2048, 512, 2048)
    fast = H200.model_copy(update={"fp32_flops": 2e14, "bandwidth": 1e12})
    full, over = (dataclasses.replace(bound_by_arithmetic, tiles=n) for n in (132 * 4, 132 * 4 + 1))
    gains = [fusion_gain(p, fast) for p in (full, over)]
    assert gains[0] > gains[1] >= 1.0


def test_a_product_so_small_that_launches_are_all_gains_a_launch_at_most() -> None:
    assert 1.5 < fusion_gain(product(64, 8, 64), H200) <= 2.0


sizes = st.integers(1, 1 << 14)


@given(
    sizes,
    sizes,
    sizes,
    st.integers(1, 64),
    st.sampled_from([ANY_GPU, H200, Accelerator(kind="hip", units=304)]),
)
def test_a_gain_is_one_at_least_and_no_more_than_the_traffic_and_the_launch_that_are_saved(
    rows: int, inner: int, columns: int, batches: int, gpu: Accelerator
) -> None:
    assert 1.0 <= fusion_gain(product(rows, inner, columns, batches=batches), gpu) <= 3.0


def two_products() -> Program:
    """A deep product with the larger result, then a shallow one."""

    def function(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
        return [torch.relu(x @ w), torch.relu(y @ v)]

    inputs = (torch.empty(4096, 4096), torch.empty(4096, 4096), torch.empty(8192, 16), torch.empty(16, 1024))
    return lower(capture_module(Wrap(function), inputs))


def test_sites_are_in_the_order_of_what_they_gain_on_the_gpu() -> None:
    sites = triton_edits(H200)["triton-matmul"].sites(two_products())
    assert [site.gain > 1.2 for site in sites] == [True, False] and sites[1].gain == 1.0
    assert "67.1 MB" in sites[0].why and "134.2 MB" in sites[1].why

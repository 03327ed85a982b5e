"""Real compilers on real candidates, with no device: one process for each candidate and GPU."""

import importlib.util
from pathlib import Path

import pytest

from kernelwright.core.evidence import METRICS
from kernelwright.targets.gpu.inspect.inspection import (
    Inspection,
    InspectionStatus,
    KernelOutcome,
    KernelReport,
)
from kernelwright.targets.gpu.inspect.meaning import notes
from kernelwright.targets.gpu.inspect.run import find_device, inspect_candidate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton's compiler"),
]

KERNELS = (Path(__file__).parent / "kernels.py").read_text(encoding="utf-8")
SMALL = """
import torch, triton, triton.language as tl

@triton.jit
def half_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) * 0.5)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        assert torch.cuda.get_device_properties(x.device).multi_processor_count == 304
        out = torch.empty_like(x)
        half_kernel[(4,)](x, out, BLOCK=256)
        half_kernel[(3,)](x[1:], out, BLOCK=256)
        print("a word of the candidate's")
        if x.sum().item() > 0:
            half_kernel[(2,)](x, out, BLOCK=512)
        return out
"""
TASK = """
import torch
def get_inputs(): return [torch.rand(1024)]
def get_init_inputs(): return []
"""


@pytest.fixture(scope="module")
def found() -> Inspection:
    return inspect_candidate(KERNELS, find_device("sm_90"))


def named(found: Inspection, name: str) -> list[KernelReport]:
    return [kernel for kernel in found.kernels if kernel.kernel == name]


def test_the_candidate_ran_to_its_end_and_not_every_kernel_can_run(found: Inspection) -> None:
    assert (found.status, found.detail, found.architecture) == (InspectionStatus.INSPECTED, "", "sm_90")
    assert not found.can_run
    assert set(found.versions) == {"torch", "triton"}


def test_one_kernel_is_one_report_however_often_it_is_launched(found: Inspection) -> None:
    aligned, _ = named(found, "scaled_kernel")
    assert (aligned.launches, aligned.grid, aligned.outcome) == (2, (64,), KernelOutcome.FITS)
    assert aligned.arguments == {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
    assert aligned.constants == {"BLOCK": "1024"} and aligned.argument_bytes == 2 * 64 * 1024 * 4
    assert aligned.facts["aot.load_bytes"] == 16 and aligned.facts["aot.occupancy"] == 1.0
    assert set(aligned.facts) <= set(METRICS)


def test_a_pointer_off_by_one_is_seen_in_the_width_of_its_accesses(found: Inspection) -> None:
    _, shifted = named(found, "scaled_kernel")
    assert shifted.unaligned == ("x_ptr",) and shifted.facts["aot.load_bytes"] == 4


def test_a_grid_can_be_too_large(found: Inspection) -> None:
    _, shifted = named(found, "scaled_kernel")
    assert shifted.outcome is KernelOutcome.CANNOT_LAUNCH
    assert notes(shifted) == ("a grid of 70000 programs along y, at most 65535 can be launched",)


def test_registers_in_memory_are_counted(found: Inspection) -> None:
    (squeezed,) = named(found, "squeezed_kernel")
    assert squeezed.outcome is KernelOutcome.SPILLS
    assert squeezed.facts["aot.registers"] == 24 and isinstance(squeezed.facts["aot.spills"], int)
    assert notes(squeezed)[0].startswith(f"{squeezed.facts['aot.spills']} registers are spilled to memory")
    assert found.facts()["aot.spills"] is not None


def test_tensor_cores_and_what_ends_the_occupancy(found: Inspection) -> None:
    small, large = named(found, "product_kernel")
    assert (
        isinstance(small.facts["aot.matrix_instructions"], int) and small.facts["aot.matrix_instructions"] > 0
    )
    assert (small.outcome, small.facts["aot.occupancy_limit"]) == (KernelOutcome.FITS, "shared")
    assert large.outcome is KernelOutcome.CANNOT_LAUNCH and "shared memory" in large.detail


def test_a_kernel_that_does_not_compile_is_named_and_the_others_are_seen(found: Inspection) -> None:
    (wrong,) = named(found, "wrong_kernel")
    assert wrong.outcome is KernelOutcome.NOT_BUILT and "no_such_function" in wrong.detail
    assert wrong.facts == {}


def test_an_autotuners_trials_may_fail(found: Inspection) -> None:
    failed, chosen = named(found, "tuned_kernel")
    assert (failed.is_trial, failed.outcome, failed.launches) == (True, KernelOutcome.NOT_BUILT, 0)
    assert (chosen.is_trial, chosen.outcome, chosen.launches) == (False, KernelOutcome.FITS, 1)
    assert chosen.num_warps == 2


def test_a_candidate_that_needs_values_says_so_and_keeps_what_was_seen() -> None:
    found = inspect_candidate(SMALL, find_device("gfx942"), task_source=TASK)
    assert found.status is InspectionStatus.NOT_RUN and "kernel.py:16" in found.detail
    assert not found.can_run
    kernel, shifted = found.kernels
    assert kernel.unaligned == () and shifted.unaligned == ("x_ptr",)
    assert kernel.facts["aot.block_threads"] == 256 and kernel.facts["gpu.architecture"] == "gfx942"
    assert "a word of the candidate's" in found.log

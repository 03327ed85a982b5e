"""A printed candidate with a kernel of every form, built where no GPU is for each generation that counts."""

import importlib.util
from functools import cache

import pytest
from tests.marks import mostly_slow

from kernelwright.core.evidence import METRICS, FactValue
from kernelwright.core.machine import UNKNOWN_MACHINE, Accelerator
from kernelwright.core.task import Task
from kernelwright.ir.lower import lower
from kernelwright.ir.program import Program, Region
from kernelwright.targets.gpu.inspect.inspection import Inspection, KernelOutcome
from kernelwright.targets.gpu.inspect.run import find_device, inspect_candidate
from kernelwright.targets.triton.candidate import render_triton_candidate
from kernelwright.targets.triton.defaults import with_triton_schedules
from kernelwright.targets.triton.edits import triton_edits
from kernelwright.targets.triton.schedule import decide
from kernelwright.tasks.capture import capture_task

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton's compiler")
SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, rows, left, right):
        product = torch.relu(left @ right)
        return torch.clamp(x, -1.0, 1.0), torch.softmax(rows, 1), rows[:, :64].sum(1), product


def get_inputs():
    return [torch.rand(1 << 17), torch.rand(640, 4096), torch.rand(256, 128), torch.rand(128, 192)]


def get_init_inputs():
    return []
"""
THREE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y, z):
        return torch.relu(x), torch.relu(y), torch.relu(z)


def get_inputs():
    return [torch.rand(1 << 17), torch.rand(1 << 16), torch.rand(1 << 15)]


def get_init_inputs():
    return []
"""
NVIDIA = ("sm_80", "sm_90", "sm_100")
PATIENCE_S = 1200.0
"""Seconds on an idle machine, minutes on a busy one."""
TARGETS = (*NVIDIA, "gfx942")


@cache
def lowered(gpu: Accelerator) -> tuple[str, Program]:
    """Return source and program; the product in the least precision that the device's edits know."""
    task = Task(name="t", source=SOURCE)
    captured = capture_task(task, task.workloads[0])
    edits, program = triton_edits(gpu), with_triton_schedules(lower(captured), UNKNOWN_MACHINE)
    (site,) = edits["triton-matmul"].sites(program)
    program = edits["triton-matmul"].apply(program, site.region, {})
    for precision in edits["triton-precision"].sites(program):
        program = edits["triton-precision"].apply(program, precision.region, {"precision": "tf32"})
    return render_triton_candidate(task, {"default": (captured, program)}, "1. seed"), program


@pytest.fixture(scope="module", params=mostly_slow(TARGETS, "sm_90"))
def built(request: pytest.FixtureRequest) -> tuple[str, Inspection, dict[str, dict[str, FactValue]]]:
    """Target, what was found, and facts by form."""
    target = str(request.param)
    source, program = lowered(Accelerator(kind="cuda" if target in NVIDIA else "hip"))
    forms = {f"{s.name}_kernel": decide(s).form for s in program.steps if isinstance(s, Region)}
    assert set(forms.values()) == {"flat", "row", "block", "dot"}
    found = inspect_candidate(source, find_device(target), task_source=SOURCE, timeout_s=PATIENCE_S)
    assert {k.kernel for k in found.kernels} == set(forms), (found.detail, found.log)
    return target, found, {forms[k.kernel]: dict(k.facts) for k in found.kernels}


def test_every_form_is_built_and_fits(
    built: tuple[str, Inspection, dict[str, dict[str, FactValue]]],
) -> None:
    target, found, forms = built
    assert found.can_run and found.architecture == target, (found.detail, found.log)
    assert {kernel.outcome for kernel in found.kernels} == {KernelOutcome.FITS}
    assert all(kernel.unaligned == () for kernel in found.kernels)
    assert found.facts()["gpu.launches"] == len(found.kernels)
    for facts in forms.values():
        assert facts.keys() <= METRICS.keys()
        assert facts["gpu.architecture"] == target and facts["aot.spills"] == 0
        for name, low, high in (
            ("aot.registers", 8, 512), ("aot.occupancy", 0.1, 1.0), ("aot.resident_blocks", 1, 64),
            ("aot.instructions", 10, 20_000), ("aot.global_accesses", 2, 2_000),
        ):  # fmt: skip
            value = facts[name]
            assert isinstance(value, int | float) and low <= value <= high, (name, value)


def test_the_machine_code_shows_what_each_form_is_for(
    built: tuple[str, Inspection, dict[str, dict[str, FactValue]]],
) -> None:
    _, _, forms = built
    assert forms["flat"]["aot.load_bytes"] == forms["flat"]["aot.store_bytes"] == 16
    assert forms["row"]["aot.load_bytes"] == 16
    assert forms["flat"]["aot.shared_bytes"] == forms["flat"]["aot.barriers"] == 0
    for name in ("aot.shuffles", "aot.special_instructions", "aot.shared_bytes"):
        assert forms["row"][name], name
    for name in ("aot.matrix_instructions", "aot.shared_bytes"):
        assert forms["dot"][name], name
    for form in ("flat", "row", "block"):
        assert forms[form]["aot.matrix_instructions"] == forms[form]["aot.atomics"] == 0


@pytest.mark.slow
def test_the_width_of_accesses_is_what_the_edit_makes_it() -> None:
    task = Task(name="t", source=THREE)
    captured = capture_task(task, task.workloads[0])
    program, edit = (
        with_triton_schedules(lower(captured), UNKNOWN_MACHINE),
        triton_edits(Accelerator())["triton-vector"],
    )
    sites = edit.sites(program)
    assert len(sites) == 3
    wanted = {f"{site.region}_kernel": width for site, width in zip(sites, (4, 8, 16), strict=True)}
    for site, width in zip(sites, (4, 8, 16), strict=True):
        program = edit.apply(program, site.region, {"vector_bytes": width})
    source = render_triton_candidate(task, {"default": (captured, program)}, "1. seed")
    found = inspect_candidate(source, find_device("sm_90"), task_source=THREE, timeout_s=PATIENCE_S)
    for name in ("aot.load_bytes", "aot.store_bytes"):
        assert {kernel.kernel: kernel.facts[name] for kernel in found.kernels} == wanted

"""A printed candidate, module constants and batch statistics included, is built and fits where no GPU is."""

import importlib.util

import pytest
from tests.kernels.triton.test_candidate import SOURCE

from kernelwright.core.plan import Plan
from kernelwright.core.task import Task
from kernelwright.devices.inspect.inspection import KernelOutcome
from kernelwright.devices.inspect.run import find_device, inspect_candidate
from kernelwright.kernels.carry_out import carry_out, write_source
from kernelwright.tasks.capture import capture_task


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton's compiler")
def test_every_kernel_of_a_printed_candidate_fits() -> None:
    task = Task(name="t", source=SOURCE)
    carried = carry_out(capture_task(task, task.workloads[0]), Plan(), {}, "triton")
    source = write_source(task, {"default": carried}, Plan())
    found = inspect_candidate(source, find_device("sm_100"), task_source=SOURCE)
    assert found.can_run, (found.detail, found.log)
    assert {kernel.outcome for kernel in found.kernels} == {KernelOutcome.FITS}
    launched = {kernel.kernel for kernel in found.kernels}
    assert launched == {f"{step}_kernel" for step in _launchers(source)}
    assert all(kernel.unaligned == () for kernel in found.kernels)
    assert found.facts()["gpu.launches"] == len(launched)


def _launchers(source: str) -> set[str]:
    lines = [line.strip() for line in source.splitlines() if "_kernel[(" in line]
    return {line.partition("_kernel[(")[0] for line in lines}

"""Delivers modules without a search: captured, lowered by default schedules, printed, compiled."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from kernelwright.core.candidate import Candidate
from kernelwright.core.machine import Machine
from kernelwright.core.task import Task
from kernelwright.delivery.backward import backward_task, deliver_with_backward
from kernelwright.delivery.making import Delivery, deliver
from kernelwright.ir.lower import lower
from kernelwright.targets.cpp.candidate import render_cpp_candidate
from kernelwright.targets.cpp.schedules import with_default_schedules
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.live import task_from_module


def printed(task: Task) -> Candidate:
    """Return a candidate with C++ kernels."""
    programs = {}
    for workload in task.workloads:
        captured = capture_task(task, workload)
        programs[workload.name] = (captured, with_default_schedules(lower(captured), Machine(cores=2)))
    return Candidate(source=render_cpp_candidate(task, programs, "seed"))


def delivered(
    module: nn.Module,
    inputs: Any,
    folder: Path,
    kwargs: Mapping[str, Any] | None = None,
    *,
    source: str | None = None,
    is_frozen: bool = False,
) -> Delivery:
    """Deliver a live module; ``source``: a kernel's, in the place of a printed one."""
    task = task_from_module(module, inputs, name=type(module).__name__, folder=folder, kwargs=kwargs)
    winner = printed(task) if source is None else Candidate(source=source)
    return deliver(winner, task, module, is_frozen=is_frozen)


def delivered_with_backward(module: nn.Module, inputs: Any, folder: Path, **how: Any) -> Delivery:
    """Deliver a live module with printed kernels for results and gradients."""
    task = task_from_module(module, inputs, name=type(module).__name__, folder=folder, **how)
    back = backward_task(task, module, folder)
    return deliver_with_backward(printed(task), task, module, back, printed(back.task))

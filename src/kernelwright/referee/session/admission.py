"""Is the task one that can be judged here? One clear line each when it is not."""

import ast
import errno
import os
from pathlib import Path

from kernelwright.core.errors import KernelwrightError, MachineError, TaskError
from kernelwright.core.task import Task, Workload
from kernelwright.referee.session.launcher import ChildDied, ChildError, ChildLate, ChildRefused

INPUT_COPIES = 9
"""Timed and transient draws, both sides' copies, the oracle's float64."""
OUTPUT_COPIES = 16
"""Live and previous outputs of both sides, dumps, the oracle in float64, what is kept to compare with."""
STATE_COPIES = 9
"""Three draws, the reference, its float64 copy, the candidate, dumps."""
USABLE_SHARE = 0.8
DISK_FULL = os.strerror(errno.ENOSPC)


def available_bytes() -> int:
    """Return the memory that can be had without swapping."""
    return _meminfo("MemAvailable:")


def total_bytes() -> int:
    """Return the machine's memory."""
    return _meminfo("MemTotal:")


def _meminfo(name: str) -> int:
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 8 << 30


def usable_bytes(limit: int | None) -> int:
    """Return what one task may take."""
    return limit if limit is not None else int(available_bytes() * USABLE_SHARE)


def check_memory(
    task: Task, workload: Workload, inputs: int, outputs: int, state: int, limit: int | None
) -> None:
    """Raise TaskError when judging would need more memory than there is, with what to scale."""
    needed = inputs * INPUT_COPIES + outputs * OUTPUT_COPIES + state * STATE_COPIES
    usable = usable_bytes(limit)
    if needed <= usable:
        return
    is_weights = 2 * state * STATE_COPIES > needed
    advice = _suggest(task, workload, usable / needed, is_weights=is_weights)
    raise TaskError(
        f"{_where(task, workload)}: too large for this machine: inputs {inputs / 1e9:.2f} GB, outputs "
        f"{outputs / 1e9:.2f} GB, weights {state / 1e9:.2f} GB need {needed / 1e9:.1f} GB with the float64 "
        f"oracle and copies, {usable / 1e9:.1f} GB are available; {advice}"
    )


def _suggest(task: Task, workload: Workload, factor: float, *, is_weights: bool) -> str:
    sizes = _integer_globals(task.source) | {
        name: value for name, value in workload.overrides.items() if type(value) is int
    }
    if not sizes:
        return "make its tensors smaller"
    batches = [name for name in sizes if "batch" in name.lower() and not is_weights]
    name = batches[0] if batches and sizes[batches[0]] > 1 else max(sizes, key=lambda key: sizes[key])
    return f"scale the global `{name}` from {sizes[name]} to about {max(int(sizes[name] * factor), 1)}"


def _integer_globals(source: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        value = statement.value
        if isinstance(value, ast.Constant) and type(value.value) is int:
            found[statement.targets[0].id] = value.value
    return found


def is_out_of_memory(error: ChildError) -> bool:
    """True when the process could not allocate, or was killed without having crashed by itself."""
    if isinstance(error, ChildRefused):
        return error.kind in ("MemoryError", "OutOfMemoryError") or "allocate memory" in error.text
    return False


def explain(task: Task, workload: Workload, error: ChildError) -> KernelwrightError:
    """Turn what happened to the reference's process into one line: about the task, or about the machine."""
    where = _where(task, workload)
    if isinstance(error, ChildRefused):
        first_line = error.text.strip().partition("\n")[0]
        if DISK_FULL in error.text:
            return MachineError(
                f"the disk is full ({first_line}); make room where temporary files and caches are"
            )
        if error.kind == "TaskError":
            return TaskError(first_line)
        if error.kind == "Unsupported":
            return TaskError(f"{where}: its arguments cannot cross between processes: {first_line}")
        return TaskError(f"{where}: the reference raised {error.kind}: {first_line}")
    if isinstance(error, ChildLate):
        return TaskError(f"{where}: the reference gave {error}; use a smaller workload")
    if isinstance(error, ChildDied):
        return TaskError(f"{where}: the reference's process {error.how}; out of memory or a crash in it")
    return TaskError(f"{where}: {error}")


def _where(task: Task, workload: Workload) -> str:
    name = task.path or task.name
    return name if workload.name == "default" else f"{name} ({workload.name})"

"""Bring a problem made for a large GPU to a size that a small machine can run, by a stated rule.

The rule looks at nothing but the file and its shapes. Globals that name a batch are halved, all by the
same power of two, until the estimates fit, but not below one. Where that is not enough, every global that
names an extent (rows, features, height, length ...) is halved as well. A step that the model cannot be
captured at is skipped.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from kernelwright.core.errors import CaptureError, TaskError
from kernelwright.core.task import Literal_, Task, Workload
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.globals import assigned_literals, single_target
from kernelwright.tasks.kernelbench import load_task
from kernelwright.tasks.sizes import SizeEstimate, estimate_sizes

MAX_EAGER_MS = 60.0
MAX_PEAK_BYTES = 300_000_000
MAX_HALVINGS = 16

_BATCH = frozenset(
    (
        "batch_size",
        "batch",
        "B",
        "b",
    )
)
_EXTENT = frozenset(
    (
        "D",
        "H",
        "W",
        "M",
        "N",
        "K",
        "m",
        "n",
        "k",
        "l",
        "i",
        "j",
        "dim",
        "dim1",
        "dim2",
        "height",
        "width",
        "depth",
        "length",
        "in_height",
        "in_width",
        "height_in",
        "width_in",
        "depth_in",
        "input_height",
        "input_width",
        "input_length",
        "image_size",
        "image_height",
        "image_width",
        "seq_len",
        "seq_length",
        "sequence_length",
        "features",
        "num_features",
        "in_features",
        "out_features",
        "input_size",
        "hidden_size",
        "output_size",
        "embed_dim",
        "embedding_dimension",
    )
)


def scaled_overrides(
    path: Path, *, max_ms: float = MAX_EAGER_MS, max_bytes: int = MAX_PEAK_BYTES
) -> dict[str, Literal_] | None:
    """Return the overrides of the first step that fits; None when no step does.

    Args:
        path: A KernelBench-format file.
        max_ms: Largest estimated eager time in milliseconds.
        max_bytes: Largest estimated peak memory.
    """
    task = load_task(path)
    for overrides in _steps(task):
        size = _size_at(task, overrides)
        if size is not None and size.eager_ms <= max_ms and size.peak_bytes <= max_bytes:
            return overrides
    return None


def _size_at(task: Task, overrides: dict[str, Literal_]) -> SizeEstimate | None:
    try:
        return estimate_sizes(capture_task(task, Workload(overrides=overrides)))
    except (TaskError, CaptureError):
        return None


def _steps(task: Task, current: dict[str, Literal_] | None = None) -> Iterator[dict[str, Literal_]]:
    """Yield ever smaller overrides: none, batches halved, then batches at their least and extents halved."""
    sizes = {**_integers(task.source), **(current or {})}
    batch = {name: int(v) for name, v in sizes.items() if name in _BATCH and isinstance(v, int)}
    extent = {name: int(v) for name, v in sizes.items() if name in _EXTENT and isinstance(v, int)}
    step: dict[str, Literal_] = {}
    yield step
    for halvings in range(1, MAX_HALVINGS + 1):
        previous, step = step, _halved(batch, halvings)
        if step == previous:
            break
        yield step
    least = step
    for halvings in range(1, MAX_HALVINGS + 1):
        previous, step = step, {**least, **_halved(extent, halvings)}
        if step == previous:
            break
        yield step


def _halved(sizes: dict[str, int], halvings: int) -> dict[str, Literal_]:
    return {name: max(1, size >> halvings) for name, size in sizes.items() if size > 1}


def _integers(source: str) -> dict[str, int]:
    """Module-level integers, written as a literal or as a product like ``16384 * 4``."""
    found = {k: v for k, v in assigned_literals(ast.parse(source)).items() if type(v) is int}
    for statement in ast.parse(source).body:
        name = single_target(statement)
        value = _product(statement.value) if name else None  # type: ignore[attr-defined]
        if name and value is not None:
            found[name] = value
    return found


def _product(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _product(node.left), _product(node.right)
        return None if left is None or right is None else left * right
    return None

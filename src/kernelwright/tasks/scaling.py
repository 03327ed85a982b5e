"""Bring a problem made for a large GPU to a size that a small machine can run, by a stated rule.

The rule looks at nothing but the file and its shapes. Globals that name a batch are halved, all by the
same power of two, until the estimates fit, but not below one. Where that is not enough, every global that
names an extent (rows, features, height, length ...) is halved as well. Where that is still not enough, the
widths that a file lists for its layers (``layer_sizes = [1024] * 16``) are halved with the extents. A step
at which the model does not run is skipped.

Some networks fit at no step, as their weights or their image are written into the code. The rule is then
applied once more with limits ``SECOND_TRY`` times as large.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kernelwright.core.errors import CaptureError, TaskError
from kernelwright.core.task import Literal_, Task, Workload
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.globals import assigned_literals, single_target
from kernelwright.tasks.kernelbench import load_task
from kernelwright.tasks.sizes import SizeEstimate, estimate_sizes
from kernelwright.tasks.traced_sizes import trace_sizes

MAX_EAGER_MS = 60.0
MAX_PEAK_BYTES = 300_000_000
SECOND_TRY = 5.0
"""How much larger the limits are for a problem that fits at no step."""
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
        "n_embd",
    )
)
_WIDTHS = ("_sizes", "_widths")
"""How the names end of lists of widths, one a layer."""


class Scaled(NamedTuple):
    """Where the rule ends for a problem."""

    overrides: dict[str, Literal_] | None
    """Of the first step that fits; None when no step does."""
    least: SizeEstimate | None
    """The smallest step's sizes where none fits; None there: the model runs at no step."""


def scaled_to_fit(path: Path) -> Scaled:
    """Apply the rule with its own limits, then with the larger ones.

    Args:
        path: A KernelBench-format file.
    """
    task = load_task(path)
    sizes: list[tuple[dict[str, Literal_], SizeEstimate]] = []
    for overrides in _steps(task):
        size = _size_at(task, overrides)
        if size is None:
            continue
        if _fits(size, MAX_EAGER_MS, MAX_PEAK_BYTES):
            return Scaled(overrides, None)
        sizes.append((overrides, size))
    larger = (MAX_EAGER_MS * SECOND_TRY, int(MAX_PEAK_BYTES * SECOND_TRY))
    fitting = next((overrides for overrides, size in sizes if _fits(size, *larger)), None)
    return Scaled(fitting, sizes[-1][1] if sizes and fitting is None else None)


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
        if size is not None and _fits(size, max_ms, max_bytes):
            return overrides
    return None


def _fits(size: SizeEstimate, max_ms: float, max_bytes: int) -> bool:
    return size.eager_ms <= max_ms and size.peak_bytes <= max_bytes


def _size_at(task: Task, overrides: dict[str, Literal_]) -> SizeEstimate | None:
    workload = Workload(overrides=overrides)
    try:
        return estimate_sizes(capture_task(task, workload))
    except TaskError:
        return None
    except CaptureError:
        return trace_sizes(task, workload)


def _steps(task: Task, current: dict[str, Literal_] | None = None) -> Iterator[dict[str, Literal_]]:
    """Yield ever smaller overrides: none, batches halved, then batches at their least and extents halved.

    Last come the extents and the listed widths, halved together.
    """
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
    widths = _listed_widths(task.source)
    for halvings in range(1, MAX_HALVINGS + 1 if widths else 1):
        halved = {name: tuple(max(1, n >> halvings) for n in sizes) for name, sizes in widths.items()}
        previous, step = step, {**least, **_halved(extent, halvings), **halved}
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


def _listed_widths(source: str) -> dict[str, tuple[int, ...]]:
    """Module-level lists of integers with the name of widths, as literals or as ``[1024] * 16``."""
    found = {}
    for statement in ast.parse(source).body:
        name = single_target(statement)
        if name and name.endswith(_WIDTHS):
            values = _list(statement.value)  # type: ignore[attr-defined]
            if values and all(type(n) is int for n in values):
                found[name] = tuple(values)
    return found


def _list(node: ast.expr) -> list[Any]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        times = _product(node.right)
        return _list(node.left) * times if times is not None else []
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return []
    return list(value) if isinstance(value, list | tuple) else []


def _product(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _product(node.left), _product(node.right)
        return None if left is None or right is None else left * right
    return None

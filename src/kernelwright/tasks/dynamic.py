"""Tasks whose inputs come at several extents, and graphs that hold for all of them."""

import inspect
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelwright.core.dynamic import DynamicAxis, sample_extents, verified_extents
from kernelwright.core.errors import CaptureError, TaskError, UserError
from kernelwright.core.structure import put_together, take_apart
from kernelwright.core.task import Mode, Task, Workload
from kernelwright.tasks.capture import Capture, Captured, capture_task
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace
from kernelwright.tasks.randomness import kept_random_state

EXTENTS = "kernelwright_extents"
"""Global of a dynamic task that workloads rebind."""
_RESIZED = """

{extents} = {own!r}
kernelwright_own_inputs = get_inputs


def get_inputs():
    from kernelwright.tasks.resized import resized

    return resized(kernelwright_own_inputs, {axes!r}, {extents})
"""


def dynamic_task(task: Task, asked: Sequence[DynamicAxis], seed: int = 0) -> Task:
    """Return the task with extents that vary: its first workload is timed, and others verify the range.

    Raises:
        UserError: an axis that is not there, or one whose range cannot be told.
        TaskError: the task does not load, or its graph does not hold for the whole range.
    """
    if not asked:
        return task
    if len(task.workloads) > 1:
        raise UserError("--dynamic: the task has several workloads; give one, and further extents after @")
    namespace = load_namespace(task, task.workloads[0])
    inputs = draw_inputs(task, namespace, seed=0)
    axes = tuple(_resolved(axis, inputs, _names(task, namespace)) for axis in asked)
    _require_apart(axes)
    own = tuple(_own(axis, inputs) for axis in axes)
    source = task.source.rstrip("\n") + "\n" + _RESIZED.format(
        extents=EXTENTS, own=own, axes=tuple(axis.axes for axis in axes)
    )  # fmt: skip
    timed = _timed_points(axes)
    verified = [point for point in verified_extents(axes, f"{task.id} {seed}") if point not in timed]
    base = task.workloads[0]
    workloads = [_workload(base, axes, point, is_timed=True) for point in timed]
    workloads += [_workload(base, axes, point, is_timed=False) for point in verified]
    made = task.model_copy(update={"source": source, "workloads": tuple(workloads), "dynamic": axes})
    made.__dict__.pop("id", None)
    _require_range(made)
    _require_results(made)
    return made


def _workload(
    base: Workload, axes: Sequence[DynamicAxis], point: tuple[int, ...], *, is_timed: bool
) -> Workload:
    name = ", ".join(f"{axis.name}={extent}" for axis, extent in zip(axes, point, strict=True))
    return Workload(name=name, overrides={**base.overrides, EXTENTS: point}, is_timed=is_timed)


def example_workloads(task: Task) -> list[tuple[tuple[int, ...], Workload]]:
    """Return workloads of a dynamic task inside its ranges, with their extents: its own, and some more."""
    own = [_extents_of(workload) for workload in task.workloads]
    points = list(dict.fromkeys([*own, *_inside(task)]))
    return [(point, _workload(task.workloads[0], task.dynamic, point, is_timed=False)) for point in points]


def _inside(task: Task) -> list[tuple[int, ...]]:
    """Return the sampled extents that lie in the ranges."""
    spans = [axis.span for axis in task.dynamic]
    points = sample_extents(task.dynamic, task.id)
    return [p for p in points if all(low <= n <= high for n, (low, high) in zip(p, spans, strict=True))]


def _extents_of(workload: Workload) -> tuple[int, ...]:
    found = workload.overrides[EXTENTS]
    return tuple(int(n) for n in found if n is not None) if isinstance(found, tuple) else ()


def _timed_points(axes: Sequence[DynamicAxis]) -> list[tuple[int, ...]]:
    """Return the extents to time: all axes at their first one, then each axis at its others."""
    first = tuple(axis.timed[0] for axis in axes)
    points = [first]
    for number, axis in enumerate(axes):
        points += [(*first[:number], extent, *first[number + 1 :]) for extent in axis.timed[1:]]
    return list(dict.fromkeys(points))


def _names(task: Task, namespace: ModuleType) -> list[str]:
    """Return the names of forward's arguments, by position of the tensors that ``get_inputs`` gives."""
    if task.artifact is None:
        return list(inspect.signature(namespace.Model.forward).parameters)[1:]
    args, kwargs = namespace.call
    forward = type(namespace.loaded["module"]).forward
    given = inspect.signature(forward).bind(None, *args, **kwargs).arguments
    names = {id(value): name for name, value in given.items() if isinstance(value, torch.Tensor)}
    return [names.get(id(tensor), "") for tensor in namespace.tensors]


def _resolved(asked: DynamicAxis, inputs: Sequence[Any], names: Sequence[str]) -> DynamicAxis:
    axes = tuple((_position(name, inputs, names), axis) for name, axis in asked.axes) or _batch(inputs)
    sizes = {}
    for position, axis in axes:
        shape = tuple(inputs[position].shape)
        if not -len(shape) <= axis < len(shape) or not shape[axis]:
            raise UserError(
                f"--dynamic {asked.words}: input {position} has shape {shape}, no axis {axis} to vary"
            )
        sizes[position, axis % len(shape)] = shape[axis]
    if len(set(sizes.values())) > 1:
        found = ", ".join(map(str, sorted(set(sizes.values()))))
        raise UserError(f"--dynamic {asked.words}: these axes have different sizes: {found}")
    own = next(iter(sizes.values()))
    low, high = asked.low or 1, asked.high or max(own, asked.low or 1)
    if low == high:
        raise UserError(
            f"--dynamic {asked.words}: the range is {low}-{high}; give one, such as {asked.name}:1-64"
        )
    timed = asked.timed or (min(max(own, low), high),)
    return DynamicAxis(name=asked.name, axes=tuple(sizes), low=low, high=high, timed=timed)


def _position(name: int | str, inputs: Sequence[Any], names: Sequence[str]) -> int:
    found = name if isinstance(name, int) else names.index(name) if name in names else -1
    if not 0 <= found < len(inputs) or not isinstance(inputs[found], torch.Tensor):
        known = [
            n or str(i) for i, n in enumerate(names[: len(inputs)]) if isinstance(inputs[i], torch.Tensor)
        ]
        raise UserError(f"--dynamic: {name!r} names no tensor of the call; known: {', '.join(known)}")
    return found


def _batch(inputs: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    tensors = [(i, t.shape[0]) for i, t in enumerate(inputs) if isinstance(t, torch.Tensor) and t.dim()]
    if not tensors:
        raise UserError("--dynamic batch: no input has an axis")
    return tuple((position, 0) for position, size in tensors if size == tensors[0][1])


def _own(axis: DynamicAxis, inputs: Sequence[Any]) -> int:
    position, number = axis.axes[0]
    return int(inputs[int(position)].shape[number])


def _require_apart(axes: Sequence[DynamicAxis]) -> None:
    seen: set[tuple[int | str, int]] = set()
    names = [axis.name for axis in axes]
    for axis in axes:
        if seen & set(axis.axes) or names.count(axis.name) > 1:
            raise UserError(f"--dynamic {axis.name}: an axis is named twice")
        seen |= set(axis.axes)


# -- graphs --------------------------------------------------------------------------------------------


def capture_dynamic(task: Task, capture: Capture = capture_task) -> Captured:
    """Return the graph at the extents that kernels are made for, with its family: the graph at others.

    Raises:
        CaptureError: as ``capture_task``.
    """
    main = task.workloads[0]
    members = [
        (point, capture(task, _workload(main, task.dynamic, point, is_timed=False)))
        for point in sample_extents(task.dynamic, task.id)
    ]
    return replace(capture(task, main), axes=task.dynamic, family=tuple(members))


def _require_range(task: Task) -> None:
    """Raise TaskError where torch.export finds that a graph holds for a part of the ranges only."""
    inside = _inside(task)
    if not inside:
        return
    namespace = load_namespace(task, _workload(task.workloads[0], task.dynamic, inside[0], is_timed=False))
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            model = construct_model(task, namespace, seed=0)
            inputs = draw_inputs(task, namespace, seed=0)
            shapes = _shapes(model.forward, inputs, task.dynamic)
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.export.export(model, tuple(inputs), dynamic_shapes=shapes, strict=False)
    except (TaskError, CaptureError):
        return  # values matter to it: the family, which is captured with real ones, decides
    except Exception as error:  # torch.export raises many classes
        words = ", ".join(f"{axis.name}:{axis.low}-{axis.high}" for axis in task.dynamic)
        reason = next((line for line in str(error).splitlines() if "-" in line or "must" in line), str(error))
        said = " ".join(reason.split())[:200].removeprefix("- ")
        raise TaskError(
            f"{task.name}: one graph does not serve {words} (torch.export: {said}); "
            "narrow the range, or leave --dynamic out"
        ) from error


def _require_results(task: Task) -> None:
    """Raise TaskError where a live module's results hold other plain values at other extents."""
    if task.artifact is None:
        return
    found = set()
    for point in _inside(task)[:2]:
        namespace = load_namespace(task, _workload(task.workloads[0], task.dynamic, point, is_timed=False))
        module = namespace.loaded["module"].train(task.mode is Mode.TRAIN)
        args, kwargs = put_together(namespace.structure, draw_inputs(task, namespace, seed=0))
        try:
            with torch.no_grad(), kept_random_state():
                found.add(repr(take_apart(module.forward(*args, **kwargs), torch.is_tensor)[0]))
        except Exception:  # whatever a user's forward raises, which is said where it is captured
            return
    require_one_structure(task, found)


def require_one_structure(task: Task, structures: Collection[str]) -> None:
    """Raise TaskError where results at several extents have different structures, as text."""
    if len(structures) > 1:
        raise TaskError(
            f"{task.name}: a result is a size that varies, or another value that differs between sizes; "
            "return tensors, or leave --dynamic out"
        )


def _shapes(
    forward: Callable[..., Any], inputs: Sequence[Any], dynamic: Sequence[DynamicAxis]
) -> dict[str, Any]:
    dims = [torch.export.Dim(axis.name, min=axis.low, max=axis.high) for axis in dynamic]
    given: list[Any] = [{} if isinstance(value, torch.Tensor) else None for value in inputs]
    for axis, dim in zip(dynamic, dims, strict=True):
        for position, number in axis.axes:
            given[int(position)][number] = dim
    return dict(inspect.signature(forward).bind(*given).arguments)

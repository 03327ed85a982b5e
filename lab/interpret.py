"""The meaning of the loop IR, carried out slowly with numpy. Tests compare printed code with it.

Whole iteration spaces are arrays: keep shapes small.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from kernelwright.ir.program import (
    Affine,
    Bound,
    BufferRef,
    Call,
    Const,
    Expr,
    IndexValue,
    Inside,
    Load,
    LoopStage,
    Op,
    Program,
    Region,
    StageValue,
)

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Interpreted:
    """What a program computed."""

    outputs: tuple[torch.Tensor | None, ...]
    mutations: dict[str, torch.Tensor]
    """State-dict name of a buffer -> its new value."""


def interpret(program: Program, tensors: Mapping[str, torch.Tensor | Array]) -> Interpreted:
    """Run a program; ``tensors`` holds its inputs, parameters, buffers and constants by buffer name.

    Raises IndexError when a load or store leaves its buffer, ValueError when a tensor's layout is not the
    declared one.
    """
    memory: dict[str, torch.Tensor] = {}
    for buffer in program.buffers:
        if buffer.kind != "temporary":
            memory[buffer.name] = _with_layout(tensors[buffer.name], buffer.stride)
    for step in program.steps:
        if isinstance(step, Call):
            _run_call(step, memory)
            for name in step.results:
                if name is not None and memory[name].stride() != program.buffer(name).stride:
                    memory[name] = _with_layout(memory[name], program.buffer(name).stride)
        else:
            _allocate(step, program, memory)
            _Run(step, memory).run()
    return Interpreted(
        tuple(None if name is None else memory[name] for name in program.outputs),
        {state: memory[name] for state, name in program.mutations},
    )


def _with_layout(value: torch.Tensor | Array, stride: Sequence[int]) -> torch.Tensor:
    tensor = torch.as_tensor(value)
    if all(n == 1 or a == b for n, a, b in zip(tensor.shape, tensor.stride(), stride, strict=True)):
        return tensor
    fresh = torch.empty_strided(tuple(tensor.shape), tuple(stride), dtype=tensor.dtype)
    return fresh.copy_(tensor)


def _allocate(region: Region, program: Program, memory: dict[str, torch.Tensor]) -> None:
    for stage in region.stages:
        for store in stage.stores:
            if store.buffer not in memory:
                buffer = program.buffer(store.buffer)
                memory[store.buffer] = torch.empty_strided(
                    buffer.shape, buffer.stride, dtype=getattr(torch, buffer.dtype)
                )


def _run_call(call: Call, memory: dict[str, torch.Tensor]) -> None:
    function = _function(call)
    with torch.no_grad():
        result = function(
            *(_value(arg, memory) for arg in call.args),
            **{name: _value(arg, memory) for name, arg in call.kwargs},
        )
    results = result if isinstance(result, list | tuple) else [result]
    for name, value in zip(call.results, results, strict=True):
        if name is not None:
            memory[name] = value


def _function(call: Call) -> Callable[..., Any]:
    namespace: dict[str, Any] = {"torch": torch}
    if call.helper is not None:
        exec(call.helper, namespace)  # our own helper, printed by the lowering
    found: Callable[..., Any] = eval(call.target, namespace)
    return found


def _value(arg: Any, memory: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(arg, BufferRef):
        return memory[arg.buffer]
    if isinstance(arg, tuple):
        return [_value(item, memory) for item in arg]
    if isinstance(arg, str):
        return eval(arg, {"torch": torch})
    return arg


class _Run:
    """One region; every array has one dimension per axis of the region, of size 1 where it does not vary."""

    def __init__(self, region: Region, memory: Mapping[str, torch.Tensor]) -> None:
        self._region = region
        self._memory = memory
        axes = (*region.kept, *region.inner)
        self._place = {axis.name: k for k, axis in enumerate(axes)}
        self._size = {axis.name: axis.size for axis in axes}
        self._kept = [axis.name for axis in region.kept]
        self._stages: dict[str, Array] = {}
        self._known: dict[Expr, Array] = {}

    def run(self) -> None:
        with np.errstate(all="ignore"):
            for stage in self._region.stages:
                self._stage(stage)

    def _stage(self, stage: LoopStage) -> None:
        value = np.broadcast_to(self._eval(stage.expr), self._space(stage.axes))
        if stage.kind == "reduce":
            value = self._reduce(stage, value)
        elif stage.kind == "scan":
            value = self._scan(stage, value)
        value = value.astype(stage.dtype)
        self._stages[stage.name] = value
        over = stage.per if stage.kind == "reduce" else stage.axes
        for store in stage.stores:
            where = np.broadcast_to(self._index(store.index), self._space(over))
            flat = self._flat(store.buffer)
            _check_range(where, flat.shape[0], store.buffer)
            flat[where] = np.broadcast_to(value, where.shape)

    def _space(self, axes: Sequence[str]) -> tuple[int, ...]:
        shape = [1] * len(self._place)
        for name in (*self._kept, *axes):
            shape[self._place[name]] = self._size[name]
        return tuple(shape)

    def _reduce(self, stage: LoopStage, value: Array) -> Array:
        places = tuple(self._place[name] for name in stage.axes if name not in stage.per)
        if stage.combine in ("argmax", "argmin"):
            return self._position(stage, value, places)
        combine: dict[str, Callable[..., Array]] = {
            "sum": np.sum,
            "prod": np.prod,
            "max": np.max,
            "min": np.min,
            "any": np.any,
            "all": np.all,
        }
        done: Array = combine[str(stage.combine)](value, axis=places, keepdims=True)
        return done

    def _position(self, stage: LoopStage, value: Array, places: Sequence[int]) -> Array:
        assert stage.position is not None
        reported = np.broadcast_to(self._index(stage.position), value.shape)
        last = range(-len(places), 0)
        rows = np.moveaxis(value, places, last)
        lead = rows.shape[: rows.ndim - len(places)]
        find = np.argmax if stage.combine == "argmax" else np.argmin
        best = find(rows.reshape(*lead, -1), axis=-1)[..., None]
        found = np.take_along_axis(np.moveaxis(reported, places, last).reshape(*lead, -1), best, axis=-1)
        return found.reshape([1 if k in places else n for k, n in enumerate(value.shape)])

    def _scan(self, stage: LoopStage, value: Array) -> Array:
        assert stage.scan_axis is not None
        place = self._place[stage.scan_axis]
        accumulate: dict[str, Callable[..., Array]] = {
            "sum": np.cumsum,
            "prod": np.cumprod,
            "max": np.maximum.accumulate,
            "min": np.minimum.accumulate,
        }
        value = np.flip(value, place) if stage.reverse else value
        done: Array = accumulate[str(stage.combine)](value, axis=place)
        return np.flip(done, place) if stage.reverse else done

    def _index(self, index: Affine) -> Array:
        total: Array = np.full([1] * len(self._place), index.offset, dtype=np.int64)
        for name, coefficient in index.terms:
            shape = [1] * len(self._place)
            shape[self._place[name]] = self._size[name]
            total = total + coefficient * np.arange(self._size[name], dtype=np.int64).reshape(shape)
        return total

    def _inside(self, bounds: Sequence[Bound]) -> Array:
        inside: Array = np.ones([1] * len(self._place), dtype=bool)
        for bound in bounds:
            index = self._index(bound.index)
            inside = inside & (index >= 0) & (index < bound.size)
        return inside

    def _eval(self, expr: Expr) -> Array:
        if isinstance(expr, StageValue):
            return self._stages[expr.stage]
        if expr not in self._known:
            self._known[expr] = self._compute(expr)
        return self._known[expr]

    def _compute(self, expr: Expr) -> Array:
        if isinstance(expr, Const):
            return np.full([1] * len(self._place), expr.value, dtype=expr.dtype)
        if isinstance(expr, IndexValue):
            return self._index(expr.index).astype(expr.dtype)
        if isinstance(expr, Inside):
            return self._inside(expr.bounds)
        if isinstance(expr, Load):
            return self._load(expr)
        assert isinstance(expr, Op)
        args = [self._eval(arg) for arg in expr.args]
        return _apply(expr.name, args, expr.dtype)

    def _load(self, load: Load) -> Array:
        where = self._index(load.index)
        for term, stride in load.dynamic:
            where = where + self._eval(term).astype(np.int64) * stride
        inside = self._inside(load.bounds)
        where = np.where(inside, where, 0)
        flat = self._flat(load.buffer)
        _check_range(where, flat.shape[0], load.buffer)
        otherwise = np.asarray(load.otherwise, dtype=load.dtype)
        loaded: Array = np.where(inside, flat[where], otherwise).astype(load.dtype)
        return loaded

    def _flat(self, name: str) -> Array:
        tensor = self._memory[name].detach()
        extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        flat: Array = tensor.as_strided((extent,), (1,)).numpy()
        return flat


def _check_range(where: Array, extent: int, buffer: str) -> None:
    if where.size and (where.min() < 0 or where.max() >= extent):
        raise IndexError(f"{buffer}: {where.min()}..{where.max()} outside 0..{extent - 1}")


def _apply(name: str, args: Sequence[Array], dtype: str) -> Array:
    if name == "cast":
        return _cast(args[0], dtype)
    if name in _NUMPY:
        plain: Array = np.asarray(_NUMPY[name](*args)).astype(dtype)
        return plain
    tensors = [torch.from_numpy(np.ascontiguousarray(arg)) for arg in args]
    made: Array = _TORCH[name](*tensors).numpy().astype(dtype)
    return made


def _cast(value: Array, dtype: str) -> Array:
    if dtype == "bool":
        return np.not_equal(value, 0)
    whole = value.dtype.kind == "f" and dtype.startswith(("int", "uint"))
    result: Array = (np.trunc(value) if whole else value).astype(dtype)
    return result


_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "neg": np.negative,
    "abs": np.abs, "reciprocal": lambda x: 1 / x, "fma": lambda a, b, c: a * b + c,
    "min": np.minimum, "max": np.maximum, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "trunc": np.trunc, "sign": np.sign, "fmod": np.fmod, "remainder": np.remainder,
    "floordiv": np.floor_divide,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "square": np.square,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "sinh": np.sinh,
    "cosh": np.cosh, "atan": np.arctan, "asin": np.arcsin, "acos": np.arccos, "pow": np.power,
    "softplus": lambda x: np.logaddexp(x, 0),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
    "xor": np.logical_xor, "isnan": np.isnan, "isinf": np.isinf, "where": np.where,
}  # fmt: skip
_TORCH: dict[str, Callable[..., torch.Tensor]] = {"erf": torch.erf, "sigmoid": torch.sigmoid}

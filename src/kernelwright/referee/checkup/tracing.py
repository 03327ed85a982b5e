"""Runs the reference operator by operator: records each result, and can replace some results.

Works on eager calls through torch's dispatch mode, so a module need not be capturable. Views, copies and
operators without a tensor among their arguments are not counted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only
from torch.utils.flop_counter import flop_registry

from kernelwright.tasks.sizes import EAGER_BYTES_PER_MS, EAGER_FLOPS_PER_MS

UNCOUNTED = frozenset(
    (
        "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like",
        "bernoulli_", "uniform_", "normal_", "exponential_", "random_", "fill_", "zero_", "new_empty",
        "new_zeros", "new_ones", "new_full", "clone", "_to_copy", "copy_",
    )
)  # fmt: skip
"""Operators that use a tensor for its shape only, or return their argument: trying them shows nothing."""
SAMPLE = 4096
"""Number of elements kept of each operator's result."""
MOST_SAMPLED = 1000
"""Number of operators of which elements are kept; a recurrent network has tens of thousands."""

_NOTHING = torch.empty(0, dtype=torch.float64)

Run = Callable[[], Any]
"""Runs the operator and returns its result."""
Hook = Callable[[Run, tuple[Any, ...]], Any]
"""Takes the operator and its arguments; returns the result to use instead of the operator's own."""


@dataclass(frozen=True, eq=False)
class TracedOperator:
    """One operator of one eager call."""

    index: int
    name: str
    """aten's name without overload."""
    shape: tuple[int, ...]
    arg_shapes: tuple[tuple[int, ...], ...]
    cost_ms: float
    """Rough eager time on two cores, from bytes and operations."""
    bytes: int
    flops: int
    is_float: bool
    sample: torch.Tensor = _NOTHING
    """Elements of the (first) result at fixed places, float64; empty when the result was not sampled."""
    arg_samples: tuple[torch.Tensor, ...] = ()

    @property
    def says(self) -> str:
        """The operator with its shapes, for messages."""
        shapes = ", ".join(_shape(shape) for shape in self.arg_shapes[:3])
        return f"{self.name}({shapes}) -> {_shape(self.shape)}"


class Tap(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Records the operators of a call and replaces some of their results.

    ``prepare`` is applied to every tensor that an operator reads; the operator reads its result instead.
    """

    def __init__(
        self,
        hooks: Mapping[int, Hook] | None = None,
        *,
        is_recording: bool = False,
        prepare: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: list[TracedOperator] = []
        self._hooks = hooks or {}
        self._is_recording, self._prepare = is_recording, prepare
        self._count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator."""
        kwargs = kwargs or {}
        is_counted = _has_tensor((args, kwargs)) and func.overloadpacket.__name__ not in UNCOUNTED
        if not is_counted or _is_view(func):
            return func(*args, **kwargs)
        index, self._count = self._count, self._count + 1
        hook = self._hooks.get(index)
        if self._prepare is not None:
            args = tree_map_only(torch.Tensor, self._prepare, args)
        is_sampled = self._is_recording and index < MOST_SAMPLED
        before = [sample_of(x) for x in _tensors(args)] if is_sampled else []
        result = hook(lambda: func(*args, **kwargs), args) if hook else func(*args, **kwargs)
        if self._is_recording:
            op = _describe(index, func, args, kwargs, result)
            value = first_tensor(result) if is_sampled else None
            sample = _NOTHING if value is None else sample_of(value)
            self.ops.append(replace(op, sample=sample, arg_samples=tuple(before)))
        return result


def first_tensor(result: Any) -> torch.Tensor | None:
    """Return the (first) tensor in an operator's result."""
    return next((x for x in tree_flatten(result)[0] if isinstance(x, torch.Tensor)), None)


def with_first(result: Any, value: torch.Tensor) -> Any:
    """Overwrite the first tensor of a result in place, so that operators that work in place see it too."""
    target = first_tensor(result)
    assert target is not None
    target.copy_(value.reshape(target.shape).to(target.dtype))
    return result


def sample_of(x: torch.Tensor, count: int = SAMPLE) -> torch.Tensor:
    """Return elements at evenly spread places as float64; the real part of complex ones."""
    flat = x.detach().reshape(-1)
    if flat.numel() > count:
        flat = flat[torch.linspace(0, flat.numel() - 1, count, dtype=torch.float64).long()]
    return (flat.real if flat.is_complex() else flat).to(torch.float64).clone()


def _describe(
    index: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> TracedOperator:
    value = first_tensor(result)
    tensors = _tensors(args)
    moved = sum(x.numel() * x.element_size() for x in [*tensors, *_tensors(result)])
    flops = _flops(func, args, kwargs, result)
    return TracedOperator(
        index=index,
        name=func.overloadpacket.__name__.lstrip("_"),
        shape=tuple(value.shape) if value is not None else (),
        arg_shapes=tuple(tuple(x.shape) for x in tensors),
        cost_ms=max(moved / EAGER_BYTES_PER_MS, flops / EAGER_FLOPS_PER_MS),
        bytes=moved,
        flops=flops,
        is_float=value is not None and value.is_floating_point(),
    )


def _flops(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    count = flop_registry.get(func.overloadpacket)
    if count is None:
        return 0
    try:
        return int(count(*args, **kwargs, out_val=result))
    except Exception:  # torch's own formulas fail on some argument forms; then only bytes count
        return 0


def _tensors(values: Any) -> list[torch.Tensor]:
    return [x for x in tree_flatten(values)[0] if isinstance(x, torch.Tensor)]


def _has_tensor(values: Any) -> bool:
    return bool(_tensors(values))


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"

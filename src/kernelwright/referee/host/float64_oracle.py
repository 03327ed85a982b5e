"""The reference in float64: the oracle that outputs are judged by.

A copy of the reference gets float64 parameters, buffers and attributes. While it runs, ``InDouble`` keeps
everything else in float64 too: constants of the file, closures and containers, tensors made in ``forward``,
and casts such as ``.float()`` or ``dtype=torch.float32``, which would fail beside float64 or round what the
oracle must keep. Code that asks for a dtype is told the reference's own, so that a constant taken from
``torch.finfo(x.dtype)`` and a branch on the dtype are those of the reference.

To see which decisions hang on roundings, results can be moved as roundings of float32 would move them
(``moved_results.py``).

Where float64 cannot be kept, one operation runs in the reference's own dtype and its result goes on in
float64: an operation that has no float64 kernel or is compiled for another dtype, and a view of the bits.
"""

import contextlib
import copy
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from kernelwright.referee.host.moved_results import MovedResults

_PROMOTED = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
_COMPLEX = {torch.float16: torch.complex32, torch.float32: torch.complex64}


def _complex_double(x: torch.Tensor, **_: Any) -> torch.Tensor:
    return x.to(torch.complex128)


_CASTS: dict[object, Callable[..., torch.Tensor]] = {
    torch.Tensor.half: torch.Tensor.double,
    torch.Tensor.bfloat16: torch.Tensor.double,
    torch.Tensor.float: torch.Tensor.double,
    torch.Tensor.chalf: _complex_double,
    torch.Tensor.cfloat: _complex_double,  # type: ignore[attr-defined]  # torch's stubs lack it
}
_TYPE_NAMES = {f"torch.{name}Tensor": torch.float64 for name in ("Half", "BFloat16", "Float")}
_DTYPE = torch.Tensor.dtype.__get__  # type: ignore[attr-defined]
_OF_DATA = (torch.Tensor.data.__get__, torch.Tensor.data.__set__)  # type: ignore[attr-defined]


class InDouble(TorchFunctionMode):
    """While it is active, no operation that Python calls computes in less than float64.

    A tensor of lower precision is replaced by a float64 twin, the same one at each use, so that what is
    written to it is read again. The tensor itself is never written to.
    """

    def __init__(self, own: torch.dtype) -> None:
        super().__init__()
        self._own = own
        self._twins: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Carry out one operation in float64."""
        kwargs = kwargs or {}
        if func == _DTYPE:
            return self._told(_DTYPE(args[0]))
        if func is torch.Tensor.view and any(isinstance(x, torch.dtype) for x in (*args, *kwargs.values())):
            return self.kept(func(*self._lowered(args), **self._lowered(kwargs)))
        if func is torch.Tensor.type:
            args, kwargs = tree_map(_dtype_of_name, (args, kwargs))
        is_written = _is_in_place(func) or "out" in kwargs
        try:
            given = self._promoted((args, kwargs))
            return self.kept(_CASTS.get(func, func)(*given[0], **given[1]))
        except (RuntimeError, NotImplementedError):
            if is_written or func in _OF_DATA:
                raise
            with contextlib.suppress(RuntimeError, NotImplementedError):
                return self.kept(func(*self._lowered(args), **self._lowered(kwargs)))
            raise

    def _told(self, dtype: torch.dtype) -> torch.dtype:
        return self._back().get(dtype, dtype)

    def _back(self) -> dict[torch.dtype, torch.dtype]:
        return {torch.float64: self._own, torch.complex128: _COMPLEX.get(self._own, torch.complex64)}

    def _promoted(self, values: Any) -> Any:
        def promote(x: Any) -> Any:
            if isinstance(x, torch.dtype):
                return _PROMOTED.get(x, x)
            return self._twin(x) if isinstance(x, torch.Tensor) and x.dtype in _PROMOTED else x

        return tree_map(promote, values)

    def _lowered(self, values: Any) -> Any:
        back = self._back()

        def lower(x: Any) -> Any:
            is_double = isinstance(x, torch.Tensor) and x.dtype in back
            return x.to(back[x.dtype]) if is_double else x

        return tree_map(lower, values)

    def kept(self, result: Any) -> Any:
        """Return a result as it goes on: tensors in float64."""
        if isinstance(result, torch.Tensor):
            return self._twin(result) if result.dtype in _PROMOTED else result
        if isinstance(result, list | tuple) and any(isinstance(x, torch.Tensor) for x in result):
            return self._promoted(result)
        return result

    def _twin(self, tensor: torch.Tensor) -> torch.Tensor:
        held = self._twins.get(id(tensor))
        if held is None:
            # The tensor is held too: another one at its address would be taken for it.
            held = self._twins[id(tensor)] = (tensor, tensor.to(_PROMOTED[tensor.dtype]))
        return held[1]


def run_in_double(model: nn.Module, args: Any, rounding: float = 0.0) -> tuple[nn.Module, Any]:
    """Call a float64 copy of the model on float64 copies of its arguments; returns (copy, result)."""
    double = double_of(model)
    return double, call_double(double, args, rounding)


def call_double(double: nn.Module, args: Any, rounding: float = 0.0) -> Any:
    """Call a float64 module on float64 copies of its arguments; ``rounding`` as for ``MovedResults``."""
    before = torch.get_default_dtype()
    own = next((x.dtype for x in tree_leaves(args) if _is_low(x)), before)
    torch.set_default_dtype(torch.float64)
    try:
        values = doubled(args)
        mode = InDouble(own)
        with _moving(rounding) if rounding else contextlib.nullcontext(), mode:
            result = double(*values)
        return mode.kept(result)
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _moving(rounding: float) -> Iterator[None]:
    """Have results of operations move; an attention is taken apart, or its scores would not."""
    with sdpa_kernel(SDPBackend.MATH), MovedResults(rounding):
        yield


def double_of(model: nn.Module) -> nn.Module:
    """Return a copy whose parameters, buffers and plain tensor attributes are float64."""
    memo: dict[int, Any] = {}
    double = copy.deepcopy(model, memo)
    for module in list(double.modules()):
        for name, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType):
                setattr(module, name, _rebound(value, memo))
    double = double.double()
    for module in double.modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                setattr(module, name, value.double())
    return double


def _rebound(function: types.FunctionType, memo: dict[int, Any]) -> types.FunctionType:
    """Return a function whose closure holds the copies: ``deepcopy`` leaves the originals in it."""
    if not function.__closure__:
        return function
    bound = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(_copied_cell(cell, memo) for cell in function.__closure__),
    )
    bound.__kwdefaults__ = function.__kwdefaults__
    return bound


def _copied_cell(cell: types.CellType, memo: dict[int, Any]) -> types.CellType:
    try:
        return types.CellType(copy.deepcopy(cell.cell_contents, memo))
    except Exception:  # an empty cell, or whatever an object that cannot be copied raises: it stays the same
        return cell


def doubled(value: Any) -> Any:
    """Copy the tensors in lists, tuples and dicts, floats as float64; leave everything else as it is."""
    return tree_map(_double, value)


def on_processor(value: Any) -> Any:
    """Move the tensors in lists, tuples and dicts to the processor; leave everything else as it is."""
    return tree_map(lambda x: x.cpu() if isinstance(x, torch.Tensor) else x, value)


def _double(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(torch.float64, copy=True) if value.is_floating_point() else value.clone()


def _is_low(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype in _PROMOTED


def _is_in_place(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    return name in ("__setitem__", "__set__") or (name.endswith("_") and not name.endswith("__"))


def _dtype_of_name(value: Any) -> Any:
    """Return the dtype that ``Tensor.type`` means by a name or class such as ``torch.FloatTensor``."""
    name = f"{value.__module__}.{value.__name__}" if isinstance(value, type) else value
    return _TYPE_NAMES.get(name, value) if isinstance(name, str) else value

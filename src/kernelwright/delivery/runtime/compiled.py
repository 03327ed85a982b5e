"""A whole model that torch.compile takes in: so it does with every copy of it."""

import copyreg
from typing import Any

from torch import nn

from .derived import derived

_classes: dict[type[nn.Module], type[nn.Module]] = {}


def compile_whole(model: nn.Module) -> nn.Module:
    """Have torch.compile take in a model, in place, and return it.

    torch leaves the compiled call out of what it copies and pickles: such a copy would run eager and say
    nothing. A copy of this model is compiled by its first call, as the model is.
    """
    model.__class__ = _class_for(type(model))
    model.compile(dynamic=False)
    return model


def _class_for(kind: type[nn.Module]) -> type[nn.Module]:
    if kind not in _classes:
        members = {
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__doc__": kind.__doc__,
            "__reduce_ex__": _reduce,
            "__setstate__": _set_state,
            "_kernelwright_original": kind,
        }
        _classes[kind] = derived(kind, members)
    return _classes[kind]


def _reduce(self: nn.Module, protocol: Any) -> Any:
    """Pickle and copy as the original does."""
    kind: type[nn.Module] = self._kernelwright_original  # type: ignore[assignment]
    reduced = kind.__reduce_ex__(self, protocol)
    if reduced[0] is copyreg.__newobj__ and reduced[1] == (type(self),):  # type: ignore[attr-defined]
        return (_blank, (kind,), *reduced[2:])
    plain = kind.__new__(kind)
    plain.__dict__.update({n: value for n, value in vars(self).items() if n != "_compiled_call_impl"})
    return compile_whole, (plain,)


def _blank(kind: type[nn.Module]) -> nn.Module:
    """Return a compiled model whose state is about to be filled in."""
    made = _class_for(kind)
    blank: nn.Module = made.__new__(made)
    return blank


def _set_state(self: nn.Module, state: Any) -> None:
    kind: Any = self._kernelwright_original
    kind.__setstate__(self, state)
    self.compile(dynamic=False)

"""Which function turns an operator into values."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from kernelwright.ir.lower.values import Value

Made: TypeAlias = Value | tuple[Value | None, ...]
Handler: TypeAlias = Callable[..., Made]

_H = TypeVar("_H", bound=Handler)

HANDLERS: dict[str, Handler] = {}
"""``name.overload`` -> handler(maker, *args, **kwargs): tensors as values, everything else as it is.

A handler raises UnsupportedError for a form it does not generate."""


def handles(*names: str) -> Callable[[_H], _H]:
    """Register a handler for operators; a name without overload means ``default``."""

    def register(handler: _H) -> _H:
        for name in names:
            HANDLERS[name if "." in name else f"{name}.default"] = handler
        return handler

    return register

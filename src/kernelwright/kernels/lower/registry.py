"""Which function turns an operator into values."""

from collections.abc import Callable
from typing import TypeAlias

from kernelwright.kernels.lower.values import Value

Made: TypeAlias = Value | tuple[Value | None, ...]
Handler: TypeAlias = Callable[..., Made]

HANDLERS: dict[str, Handler] = {}
"""``name.overload`` -> handler(maker, *args, **kwargs): tensors as values, everything else as it is.

A handler raises UnsupportedError for a form it does not generate."""


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler for operators; a name without overload means ``default``."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name if "." in name else f"{name}.default"] = handler
        return handler

    return register

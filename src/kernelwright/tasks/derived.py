"""Classes of ours that are made of a user's, without a word to hooks that keep a registry of subclasses.

Imports nothing of Kernelwright: delivered folders carry this file.
"""

import contextlib
from typing import Any


class Unheard:
    """The first base of a class of ours, which keeps the hooks of the other bases from hearing of it."""

    def __init_subclass__(cls) -> None:
        """Call nobody."""


def derived(kind: type, members: dict[str, Any]) -> type:
    """Return a subclass with the same name, made by the class's own metaclass.

    The hooks of the class hear of those that others derive from it.
    """
    metaclass: Any = type(kind)
    hears = any("__init_subclass__" in vars(base) for base in kind.__mro__ if base is not object)
    made: type = metaclass(kind.__name__, (Unheard, kind) if hears else (kind,), members)
    if hears:
        with contextlib.suppress(TypeError):  # where instances of the two would lie differently, it stays
            made.__bases__ = (kind,)
    return made

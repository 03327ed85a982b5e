"""A dispatch mode for references, whose first operation does not import torch.compile."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

RunTold = Callable[[list[torch.Tensor], Callable[[list[torch.Tensor]], None]], object]
"""Calls the reference; the callable is told the very tensors that it is called with."""


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's mode has no types
    """Watches the operations of a call, and changes nothing.

    Torch keeps its compiler out of what a mode does, and imports the compiler for that: a second of processor
    time in every host. A reference is watched as it is, so there is nothing to keep out.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # type: ignore[no-untyped-call]

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))

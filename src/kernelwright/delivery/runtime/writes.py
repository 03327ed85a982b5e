"""Writes of torch's own that count no version: those of fused optimizers."""

import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

_watched: dict[int, "weakref.ref[torch.Tensor]"] = {}
"""By identity, as long as they live."""
_hooks: list[Any] = []


def watch(tensors: Iterable[torch.Tensor]) -> None:
    """Have these tensors' versions count what fused optimizers write to them from now on."""
    if not _hooks:
        _hooks.append(register_optimizer_step_post_hook(_count_writes))
    for tensor in tensors:
        _watched[id(tensor)] = weakref.ref(tensor, partial(_forget, id(tensor)))


def _forget(key: int, _dead: Any) -> None:
    _watched.pop(key, None)


def _count_writes(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    for group in optimizer.param_groups if _watched else ():
        for parameter in group["params"] if group.get("fused") else ():
            known = _watched.get(id(parameter))
            written = None if known is None else known()
            if written is parameter and written is not None and not written.is_inference():
                torch.autograd.graph.increment_version(written)

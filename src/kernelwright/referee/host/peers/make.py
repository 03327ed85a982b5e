"""Makes a peer of the reference by name, and leaves out one whose outputs are others."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

ALLOWED, ALLOWED_HALF = 5e-5, 3e-2
"""Scaled difference from eager's outputs, or buffers after the call, that a peer may have."""
DIFFERENT = 1e-3
"""Share of an output's integers that may differ: which of nearly equal values is the largest is open."""
STRETCHED = 1.5
"""Inputs so many times as large are tried, too."""
_HALVES = (torch.float16, torch.bfloat16)


class WrongOutputs(Exception):
    """A peer computes something else than the reference."""


def make_peer(name: str, model: nn.Module, args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return a callable that takes what the reference takes, warmed on one set of inputs.

    It keeps the weights that the reference has now, as whoever prepares a model once does, and may return the
    same memory from every call.

    Raises:
        WrongOutputs: it differs from the reference on these inputs or on larger ones, or does not change
            buffers alike.
        Exception: as the library raises, where it cannot make one.
    """
    peer = _maker(name)(model, args)
    for values in (args, tree_map(_stretched, args)):
        require_same(_called(peer, model, values), _called(model, model, values))
    return peer


def _maker(name: str) -> Callable[[nn.Module, tuple[Any, ...]], Callable[..., Any]]:
    # lazy: each imports a library that need not be there
    if name == "onnxruntime":
        from kernelwright.referee.host.peers.onnx_runtime import OnnxRuntimePeer

        return OnnxRuntimePeer
    if name == "openvino":
        from kernelwright.referee.host.peers.open_vino import OpenVinoPeer

        return OpenVinoPeer
    if name == "torch_compile_frozen":
        from kernelwright.referee.host.peers.frozen_compile import compile_frozen

        return compile_frozen
    raise ValueError(f"no peer {name!r}")


def _stretched(value: Any) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value * STRETCHED if is_float else value


def _called(call: Callable[..., Any], model: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return outputs and the reference's buffers after a call, and put the buffers back."""
    before = {name: value.clone() for name, value in model.named_buffers()}
    outputs = tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, call(*args))
    after = {name: value.clone() for name, value in model.named_buffers()}
    for name, value in model.named_buffers():
        value.copy_(before[name])
    return outputs, after


def require_same(outputs: Any, expected: Any) -> None:
    """Raise WrongOutputs unless outputs are about what eager returns."""
    ours, theirs = tree_leaves(outputs), tree_leaves(expected)
    if len(ours) != len(theirs):
        raise WrongOutputs(f"it returns {len(ours)} values, eager {len(theirs)}")
    for i, (out, right) in enumerate(zip(ours, theirs, strict=True)):
        if not isinstance(right, torch.Tensor):
            is_same = out == right
        elif not isinstance(out, torch.Tensor) or out.shape != right.shape or out.dtype != right.dtype:
            raise WrongOutputs(f"output {i} has another form than eager's")
        else:
            is_same = _is_near(out, right)
        if not is_same:
            raise WrongOutputs(f"output {i} differs from eager's")


def _is_near(out: torch.Tensor, right: torch.Tensor) -> bool:
    if not right.numel():
        return True
    if not (right.is_floating_point() or right.is_complex()):
        return bool((out != right).double().mean() <= DIFFERENT)
    allowed = ALLOWED_HALF if right.dtype in _HALVES else ALLOWED
    finite = torch.isfinite(right)
    wide = torch.complex128 if right.is_complex() else torch.float64
    distance = (out[finite].to(wide) - right[finite].to(wide)).abs()
    size = right[finite].to(wide).abs()
    is_same_elsewhere = torch.equal(torch.isfinite(out), finite)
    return is_same_elsewhere and (
        not size.numel() or bool(distance.max() <= allowed * size.max().clamp(min=1e-30))
    )

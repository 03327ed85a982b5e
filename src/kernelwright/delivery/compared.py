"""Does what is delivered compute what its original does? Asked on the examples, before anybody gets it.

A stored verdict is found by what tells tasks apart, and a module may read what nothing tells, such as a file.
So this asks once more, and much less strictly than the referee.
"""

import contextvars
import copy
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import nn

from kernelwright.core.errors import TaskError
from kernelwright.core.structure import Structure, put_together, take_apart
from kernelwright.delivery.runtime.contract import original_class
from kernelwright.delivery.runtime.kernel import SEED
from kernelwright.tasks.randomness import kept_random_state

NEAR = 1e-2
"""Root mean square of a difference over that of a result: the verdict's tolerance is far below."""
NEAR_IN_HALF = 1e-1
"""The same for types of 16 bits."""
NOISE = 10.0
"""So many times the original's own error are near, too, where a result is little else."""

Call: TypeAlias = tuple[Sequence[Any], Mapping[str, Any]]
"""Arguments by position and by name."""
Answer: TypeAlias = tuple[Structure, list[torch.Tensor]]


class OtherFunctionError(TaskError):
    """A kernel computes something else than the module in whose place it would stand."""


def require_same_function(module: nn.Module, calls: Sequence[Call], title: str) -> None:
    """Raise OtherFunctionError where a delivered module answers a call otherwise than its original.

    Copies are called, so that the module stays as it is and its report empty.
    """
    wanted = _answers(_original_of(module), calls)
    found = _answers(copy.deepcopy(module), calls)
    for number, (got, want) in enumerate(zip(found, wanted, strict=True)):
        place = _difference(got, want)
        if place is not None and not _is_noise(module, calls[number], got, want):
            raise OtherFunctionError(
                f"{title}: on example {number} the kernel returns something else than the module ({place}); "
                "optimize the module anew, with again=True or --again"
            )


def _original_of(module: nn.Module) -> nn.Module:
    """Return a copy whose parts run their originals."""
    copied = copy.deepcopy(module)
    for part in copied.modules():
        part.__class__ = original_class(type(part))
    return copied


def _answers(copied: nn.Module, calls: Sequence[Call]) -> list[Answer]:
    """Return what a copy answers; advice is for those who use the module, and so is strict mode."""

    def answers() -> list[Answer]:
        found = []
        for args, kwargs in copy.deepcopy(list(calls)):
            structure, tensors = take_apart(copied.forward(*args, **kwargs), torch.is_tensor)
            found.append((structure, [tensor.clone() for tensor in tensors]))  # a later call may write them
        return found

    with torch.no_grad(), kept_random_state(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(SEED)
        return contextvars.Context().run(answers)


def _difference(got: Answer, want: Answer) -> str | None:
    """Return which part of an answer is another, None where all are near."""
    if _form(got) != _form(want):
        return "its form"
    for place, (ours, theirs) in enumerate(zip(got[1], want[1], strict=True)):
        near = NEAR_IN_HALF if theirs.dtype.itemsize == 2 else NEAR
        if _distance(ours, theirs) > near * _size(theirs):
            return f"tensor {place}"
    return None


def _form(answer: Answer) -> object:
    return repr(answer[0]), [(tensor.shape, tensor.dtype, tensor.device) for tensor in answer[1]]


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the root mean square of the finite differences; of what is counted, the share that differs."""
    if not (other.is_floating_point() or other.is_complex()):
        return float((one != other).double().mean()) if other.numel() else 0.0
    if not torch.equal(one.isfinite(), other.isfinite()):
        return math.inf
    difference = _wide(one) - _wide(other)
    return _mean_root(difference[difference.isfinite()])


def _size(tensor: torch.Tensor) -> float:
    """Return what a distance is small against."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return 1.0
    wide = _wide(tensor)
    return max(_mean_root(wide[wide.isfinite()]), torch.finfo(tensor.dtype).eps)


def _mean_root(tensor: torch.Tensor) -> float:
    return float(tensor.abs().square().mean().sqrt()) if tensor.numel() else 0.0


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _is_noise(module: nn.Module, call: Call, got: Answer, want: Answer) -> bool:
    """Say whether an answer is as near to float64 as the original's own, where both are mostly rounding."""
    args, kwargs = call
    structure, tensors = take_apart([list(args), kwargs], torch.is_tensor)
    wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors]
    try:
        args, kwargs = put_together(structure, wide)
        ((_, truth),) = _answers(_original_of(module).double(), [(args, kwargs)])
        pairs = zip(got[1], want[1], truth, strict=True)
        return _form(got) == _form(want) and all(
            _distance(ours, true) <= NOISE * _distance(theirs, true) for ours, theirs, true in pairs
        )
    except Exception:  # whatever an original raises that does not run in float64
        return False

"""Changes inputs while the reference is called, so that its sums of several inputs cancel."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from kernelwright.referee.host.odd_rows import SAME_SHARE, nearly
from kernelwright.referee.host.redrawn import is_mask
from kernelwright.referee.host.watching import RunTold, Watching

SIGNS = {"add": 1.0, "sub": -1.0}
"""Operations of two terms -> the sign of the second one."""


def solve_cancelled(
    run_told: RunTold, values: Sequence[torch.Tensor], generator: torch.Generator
) -> list[torch.Tensor] | None:
    """Return inputs on which sums of several of them cancel; None where the reference has no such sum."""
    if sum(map(_may_change, values)) < 2:
        return None
    with Cancelling(generator) as mode:
        run_told(list(values), mode.begin)
    return list(mode.inputs) if mode.has_changed else None


class Cancelling(Watching):
    """In half of the rows makes a term that is an input what cancels the other one, which holds other inputs.

    A term is a tensor of the call or a view of one, and is written to in place: who reads the tensors after
    the call has the inputs on which the sum is zero, or nearly. A plain difference of two inputs is left
    alone: the distribution ``alike`` makes these the same.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator = generator
        self._by_storage: dict[int, int] = {}
        """Where an input that may be changed lies -> its number."""
        self._sources: Any = WeakTensorKeyDictionary()
        """Tensor -> numbers of the inputs from which it was computed."""
        self.inputs: Sequence[torch.Tensor] = ()
        self.has_changed = False

    def begin(self, inputs: Sequence[torch.Tensor]) -> None:
        """Take the tensors that the reference is called with."""
        self.inputs = inputs
        self._by_storage = {x.untyped_storage().data_ptr(): i for i, x in enumerate(inputs) if _may_change(x)}
        for i, x in enumerate(inputs):
            self._sources[x] = frozenset({i})

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.overloadpacket.__name__.rstrip("_"), kwargs or {}
        if name in SIGNS and len(args) > 1 and all(isinstance(x, torch.Tensor) for x in args[:2]):
            self._cancel(args[0], args[1], SIGNS[name] * kwargs.get("alpha", 1))
        result = func(*args, **kwargs)
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if sources := frozenset[int]().union(*map(self._known, given)):
            for x in tree_leaves(result):
                if isinstance(x, torch.Tensor):
                    self._sources[x] = sources
        return result

    def _cancel(self, one: torch.Tensor, other: torch.Tensor, factor: float) -> None:
        """Change one term of ``one + factor * other``, if one may be."""
        if not factor or (factor < 0 and self._is_whole(one) and self._is_whole(other)):
            return
        for term, rest, by in ((other, one, -1 / factor), (one, other, -factor)):
            if self._is_free(term, rest):
                term.copy_(torch.where(self._rows(term), self._near(rest * by, term), term))
                self.has_changed = True
                return

    def _is_free(self, term: torch.Tensor, rest: torch.Tensor) -> bool:
        """Tell whether a term lies in an input, place by place, on which the other term does not hang."""
        at = self._by_storage.get(term.untyped_storage().data_ptr())
        others = self._known(rest)
        if at is None or not others or at in others:
            return False
        places = zip(reversed(rest.shape), reversed(term.shape), strict=False)
        if rest.ndim > term.ndim or any(n not in (1, size) for n, size in places):
            return False
        return all(step or size < 2 for step, size in zip(term.stride(), term.shape, strict=True))

    def _is_whole(self, x: torch.Tensor) -> bool:
        return len(self._known(x)) == 1 and x.untyped_storage().data_ptr() in self._by_storage

    def _known(self, x: torch.Tensor) -> frozenset[int]:
        found: frozenset[int] = self._sources.get(x, frozenset())
        return found

    def _rows(self, x: torch.Tensor) -> torch.Tensor:
        """Return which rows are changed: half of them, or all of a vector."""
        lots = torch.rand((*x.shape[:-1], 1) if x.ndim else (), generator=self._generator)
        return ((lots < SAME_SHARE) | (x.ndim < 2)).to(x.device)

    def _near(self, value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Return values that are the same in half of the rows, or elements of a vector, near in others."""
        whole = value.to("cpu", like.dtype).expand(like.shape)
        rows = whole if whole.ndim > 1 else whole.reshape(-1, 1)
        return nearly(rows, self._generator).view(like.shape).to(like.device)


def _may_change(x: torch.Tensor) -> bool:
    return (x.is_floating_point() or x.is_complex()) and x.numel() > 0 and not is_mask(x)

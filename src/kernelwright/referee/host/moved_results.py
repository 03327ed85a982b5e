"""Moves what a float64 oracle computes inside, by lot, as roundings of float32 would.

Comparisons need it: inputs that move a little move both sides alike, and each side has roundings of its own.
So do differences of large numbers that are nearly equal, such as two distances.
"""

import random
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.utils._pytree import tree_leaves, tree_map

from kernelwright.referee.host.input_distributions import lots_alike
from kernelwright.referee.host.watching import Watching

COPIES = frozenset({"clone", "_to_copy", "cat", "stack", "copy", "detach", "lift_fresh"})
"""Operations whose results are values that were moved already."""
_ATEN = torch.ops.aten
_NORMS = (_ATEN.native_batch_norm, _ATEN.native_layer_norm, _ATEN.native_group_norm)
IN_PARTS = {norm.default: decomposition_table[norm.default] for norm in _NORMS}
"""What torch carries out at once and is carried out in parts, so that means and variances move too."""


class MovedResults(Watching):
    """Moves the results of every operation that torch carries out, those inside its own functions too.

    Equal values move alike, so ties stay ties. What float32 holds exactly, what is written into, and views of
    what was given stay as they are.
    """

    def __init__(self, rounding: float) -> None:
        """``rounding``: relative size by which results are moved at most."""
        super().__init__()
        self._rounding = rounding
        self._lot = random.getrandbits(62)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Carry an operation out and move what came of it."""
        if func in IN_PARTS:
            with self:
                return IN_PARTS[func](*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        if func._schema.is_mutable or func.overloadpacket.__name__ in COPIES:
            return result
        given = {
            x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)
        }
        return tree_map(lambda x: self._moved(x, given), result)

    def _moved(self, result: Any, given: set[int]) -> Any:
        if not isinstance(result, torch.Tensor) or result.dtype is not torch.float64:
            return result
        if result.untyped_storage().data_ptr() in given:
            return result
        is_held = result.float().double() == result
        return torch.where(is_held, result, result * (1 + self._rounding * lots_alike(result, self._lot)))

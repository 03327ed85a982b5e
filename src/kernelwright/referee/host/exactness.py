"""Watches whether what is computed from integers is exact: no result beyond its type, no digit lost."""

from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from kernelwright.referee.host.redrawn import WIDEST
from kernelwright.referee.host.watching import Watching

DOUBLE_BITS = 53
"""Integers of so many bits are exact in float64, in which honest kernels multiply and add up integers."""
ADD_UP = frozenset({"addmm", "baddbmm", "bmm", "cumsum", "dot", "mm", "mul", "mv", "square", "sum"})
"""Operations of many terms, or of which a result has more digits than its terms together."""
TERM_BY_TERM = frozenset({"abs", "add", "div", "neg", "rsub", "sub"})
"""Operations of one or two integers whose results have at most a digit more."""
CONVERT = {"_to_copy": 0, "copy": 1}
"""Operations that change a type -> which argument they read."""


class Exactness(Watching):
    """Watches one call."""

    is_exact = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.overloadpacket.__name__.rstrip("_"), kwargs or {}
        wide = self._in_double(func, name, args, kwargs)  # before the call, which may write to its arguments
        result = func(*args, **kwargs)
        if wide is not None and isinstance(result, torch.Tensor) and result.dtype in WIDEST and wide.numel():
            most = 2.0 ** (torch.iinfo(result.dtype).bits - 1)
            if name in ADD_UP:
                self.is_exact &= float(wide.max()) < min(most, 2.0**DOUBLE_BITS)
            else:  # a result beyond its type comes back at the other end
                self.is_exact &= float((wide - result.double()).abs().max()) < most
        return result

    def _in_double(self, func: Any, name: str, args: Any, kwargs: Any) -> torch.Tensor | None:
        """Return the result in float64; of operations that add up, what no sum of their terms exceeds."""
        if name in CONVERT:
            source: torch.Tensor = args[CONVERT[name]]
            return None if source.is_complex() else source.double()
        if name not in ADD_UP | TERM_BY_TERM:
            return None
        kwargs = {key: value for key, value in kwargs.items() if key != "dtype"}
        args, kwargs = tree_map_only(torch.Tensor, _sizes if name in ADD_UP else _doubled, (args, kwargs))
        try:
            return func(*args, **kwargs)  # type: ignore[no-any-return]
        except RuntimeError:  # nothing of this name in float64
            self.is_exact = False
            return None


def _doubled(x: torch.Tensor) -> torch.Tensor:
    return x.double()


def _sizes(x: torch.Tensor) -> torch.Tensor:
    return x.double().abs()

"""Finds out whether a reference leaves it open which of equal values comes first, as ``torch.topk`` does."""

from typing import Any

from kernelwright.referee.host.watching import Watching

OPEN = frozenset(
    {
        "topk", "argsort", "kthvalue", "median", "nanmedian", "mode", "cummax", "cummin",
        "max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d",
        "fractional_max_pool2d", "fractional_max_pool3d",
    }
)  # fmt: skip
SORTS = frozenset({"sort", "msort"})


class OrderTrace(Watching):
    """Watches one call of a reference."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.overloadpacket.__name__, kwargs or {}
        is_stable = kwargs.get("stable") is True
        self.is_open |= name in OPEN or (name in SORTS and not is_stable)
        return func(*args, **kwargs)

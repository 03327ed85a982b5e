"""How Triton reduces and scans: start values, steps and the functions over a tile."""

from dataclasses import dataclass

from kernelwright.ir.program import Combine, DType
from kernelwright.targets.triton.text import FLOATS, dtype_text, literal

_LIMITS: dict[str, tuple[int, int]] = {
    "int64": (-(2**63), 2**63 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int8": (-128, 127),
    "uint8": (0, 255),
}


@dataclass(frozen=True)
class Reducer:
    """One way of combining values of one type."""

    combine: Combine
    dtype: DType
    """Of the result."""

    @property
    def is_logical(self) -> bool:
        """True where truth values are combined: as 0 and 1, by maximum or minimum."""
        return self.combine in ("any", "all") or self.dtype == "bool"

    @property
    def type_text(self) -> str:
        """Type of the running value."""
        return "tl.int32" if self.is_logical else dtype_text(self.dtype)

    @property
    def start(self) -> str:
        """Neutral element."""
        if self.is_logical:
            return "0" if self._takes_larger else "1"
        if self.combine in ("sum", "prod"):
            return literal(0 if self.combine == "sum" else 1, self.dtype)
        if self.dtype in FLOATS:
            return literal(float("-inf") if self.combine == "max" else float("inf"), self.dtype)
        return str(_LIMITS[self.dtype][0 if self.combine == "max" else 1])

    @property
    def _takes_larger(self) -> bool:
        return self.combine in ("any", "max", "sum")

    def taken(self, value: str, of: DType) -> str:
        """Return a value of another type as it is combined."""
        return value if of == self.dtype and not self.is_logical else f"({value}).to({self.type_text})"

    def step(self, target: str, value: str) -> str:
        """Return the statement that takes a value in."""
        if not self.is_logical and self.combine in ("sum", "prod"):
            return f"{target} {'+' if self.combine == 'sum' else '*'}= {value}"
        if not self.is_logical and self.dtype in FLOATS:
            return f"{target} = nan_{self.combine}({target}, {value})"
        larger = self._takes_larger if self.is_logical else self.combine == "max"
        return f"{target} = tl.{'maximum' if larger else 'minimum'}({target}, {value})"

    def over(self, value: str, axis: int, *, keep: bool) -> str:
        """Return the reduction of a tile along an axis, which stays with size 1 where ``keep``."""
        tail = ", keep_dims=True" if keep else ""
        if self.is_logical:
            return f"tl.{'max' if self._takes_larger else 'min'}({value}, {axis}{tail}) != 0"
        if self.combine == "sum":
            return f"tl.sum({value}, {axis}{tail})"
        if self.combine != "prod" and self.dtype not in FLOATS:
            return f"tl.{self.combine}({value}, {axis}{tail})"
        how = "product" if self.combine == "prod" else f"nan_{self.combine}"
        return f"tl.reduce({value}, {axis}, {how}{tail})"

    def scan(self, value: str, axis: int, *, reverse: bool) -> str:
        """Return the running combination along an axis of a tile."""
        back = ", reverse=True" if reverse else ""
        if self.combine == "sum":
            return f"tl.cumsum({value}, {axis}{back})"
        if self.combine == "prod":
            return f"tl.cumprod({value}, {axis}{back})"
        how = f"nan_{self.combine}" if self.dtype in FLOATS else f"tl.standard._elementwise_{self.combine}"
        return f"tl.associative_scan({value}, {axis}, {how}{back})"

"""Accumulators of reductions: types, start values, and how two values combine."""

from dataclasses import dataclass

from kernelwright.ir.program import Combine, DType, LoopStage
from kernelwright.targets.cpp.text import CTYPES, literal

_LOWEST: dict[str, str] = {
    "int64": "INT64_MIN",
    "int32": "INT32_MIN",
    "int16": "INT16_MIN",
    "int8": "INT8_MIN",
    "uint8": "0",
    "bool": "false",
}
_HIGHEST: dict[str, str] = {
    "int64": "INT64_MAX",
    "int32": "INT32_MAX",
    "int16": "INT16_MAX",
    "int8": "INT8_MAX",
    "uint8": "UINT8_MAX",
    "bool": "true",
}


@dataclass(frozen=True)
class Accumulator:
    """How one reduction is accumulated."""

    combine: Combine
    dtype: DType
    """Of the result."""

    @property
    def ctype(self) -> str:
        """Type of the running value of a lane."""
        return CTYPES[self.dtype]

    @property
    def total_ctype(self) -> str:
        """Type of what lanes, chunks and threads are combined in."""
        return "double" if self.needs_total else self.ctype

    @property
    def needs_total(self) -> bool:
        """True for sums of floats, whose partial results go to float64."""
        return self.combine == "sum" and self.is_float

    @property
    def is_float(self) -> bool:
        """True for results that are no integers."""
        return self.dtype in ("float32", "float64")

    @property
    def start(self) -> str:
        """Neutral element."""
        match self.combine:
            case "sum" | "prod":
                return literal(0 if self.combine == "sum" else 1, self.dtype)
            case "any" | "all":
                return "false" if self.combine == "any" else "true"
            case "max":
                return literal(float("-inf"), self.dtype) if self.is_float else _LOWEST[self.dtype]
            case "min":
                return literal(float("inf"), self.dtype) if self.is_float else _HIGHEST[self.dtype]
        raise KeyError(self.combine)

    @property
    def lanes_function(self) -> str:
        """Prelude function that combines an array of lanes."""
        return f"lanes_{self.combine}"

    def step(self, target: str, value: str) -> str:
        """Return the statement that takes a value in."""
        match self.combine:
            case "sum":
                return f"{target} += {value};"
            case "prod":
                return f"{target} *= {value};"
            case "any":
                return f"{target} |= {value};"
            case "all":
                return f"{target} &= {value};"
        kind = "" if self.is_float else f"<{self.ctype}>"  # the value's text may be a plain int of C++
        return f"{target} = nan{self.combine}{kind}({target}, {value});"

    def absorbs(self, value: float | int | bool) -> bool:
        """True when taking the value in changes nothing."""
        match self.combine:
            case "sum":
                return value == 0
            case "prod":
                return value == 1
            case "max":
                return value == float("-inf")
            case "min":
                return value == float("inf")
        return False


def running(stage: LoopStage) -> Accumulator:
    """Return how a scan accumulates: sums and products of floats in float64, as torch does."""
    is_float = stage.dtype in ("float32", "float64")
    return Accumulator(stage.combine or "sum", "float64" if is_float else stage.dtype)

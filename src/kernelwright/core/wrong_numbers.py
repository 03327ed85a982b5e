"""Where a candidate's outputs are wrong, on a draw that no verdict rests on. For whoever repairs it."""

from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from kernelwright.core.frozen import Frozen

MOST_SHOWN = 5
"""Wrong elements that are told with their values; ours."""


class WrongElement(Frozen):
    """One element that is wrong. Not finite values are told as text."""

    index: tuple[int, ...] = Field(max_length=16)
    value: float
    expected: float


class AxisPattern(Frozen):
    """Which indices of one axis have a wrong element."""

    axis: int
    size: int
    n_wrong: int
    first: int
    last: int
    period: int | None = None
    """Of every ``period`` indices only those from ``low`` to ``high`` are wrong; None: there is none."""
    low: int = 0
    high: int = 0

    @property
    def line(self) -> str:
        """In words."""
        begin = f"axis {self.axis} ({self.size}): "
        if self.n_wrong == self.size:
            return f"{begin}every index"
        if self.n_wrong == self.last - self.first + 1:
            return f"{begin}indices {self.first} to {self.last}"
        spread = f"{begin}{self.n_wrong} indices between {self.first} and {self.last}"
        if self.period is None:
            return spread
        of = f"{self.low}" if self.low == self.high else f"{self.low} to {self.high}"
        return f"{spread}; index modulo {self.period} is {of}"


class WrongNumbers(Frozen):
    """One output on one draw."""

    family: str = Field(max_length=40)
    output: int
    n_elements: int
    n_wrong: int
    n_nan: int
    """NaN where the reference has none."""
    n_infinite: int
    """Infinities where the reference has finite numbers."""
    first: tuple[WrongElement, ...] = Field(default=(), max_length=MOST_SHOWN)
    axes: tuple[AxisPattern, ...] = Field(default=(), max_length=16)

    @property
    def lines(self) -> tuple[str, ...]:
        """What a prompt says of it."""
        share = 100 * self.n_wrong / max(self.n_elements, 1)
        odd = f"; {self.n_nan} NaN and {self.n_infinite} infinities where the reference has none"
        head = (
            f"out{self.output} on another draw of {self.family} inputs: {self.n_wrong} of {self.n_elements} "
            f"elements wrong ({share:.3g} %){odd if self.n_nan or self.n_infinite else ''}"
        )
        shown = (f"{list(e.index)}: {e.value:.6g}, expected {e.expected:.6g}" for e in self.first)
        firsts = f"- first wrong: {'; '.join(shown)}" if self.first else ""
        return tuple(line for line in (head, firsts, *(f"- {axis.line}" for axis in self.axes)) if line)


class OwnDraw(Frozen):
    """A draw on which a candidate is looked at: never one of a verdict's."""

    family: str = Field(max_length=40)
    """Input distribution, as docs/referee/inputs.md lists them."""
    variant: int = 0
    weights: str = "constructed"
    """Or how weights are changed: a style of ``referee/host/weight_draws.py``."""
    turn: int = 0
    """Draws of one kind differ by it."""
    allowed: float
    """Scaled error above which an element is wrong."""
    is_by_row: bool = False
    """Rows are looked at each by itself: one of huge values would hide what is wrong in the others."""

    @property
    def label(self) -> str:
        """Name in messages."""
        return self.family if self.weights == "constructed" else f"{self.family}, {self.weights} weights"


class LookedAt(Frozen):
    """What was found on a candidate's own draws, of which the last is the first that shows wrong numbers."""

    draws: tuple[str, ...] = ()
    """Labels of the draws on which outputs were compared."""
    wrong: tuple[WrongNumbers, ...] = ()

    def lines(self, failed: Sequence[str]) -> tuple[str, ...]:
        """Return what is told of a candidate that failed on these families: what was not seen, too."""
        wrong = tuple(line for one in self.wrong if one.n_wrong for line in one.lines)
        if wrong:
            return wrong
        counts = Counter(self.draws)
        looked = ", ".join(f"{label} ({n})" if n > 1 else label for label, n in counts.items())
        seen = {label.partition(",")[0] for label in self.draws}
        missed = ", ".join(family for family in dict.fromkeys(failed) if family not in seen)
        return tuple(
            line
            for line in (
                f"Which elements are wrong is not known: other draws show none ({looked}), and those of the "
                "verdict stay secret."
                if looked
                else "",
                f"Which elements are wrong on {missed} inputs was not looked at." if missed else "",
            )
            if line
        )

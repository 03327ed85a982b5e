"""Reads what the peak probe prints: rounds of rates, and how long threads waited, as medians and spreads."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelwright.core.errors import MachineError
from kernelwright.core.roofline import BandwidthPoint, FmaCheck, Spread

QUIET = 0.04
"""A sample is quiet when every thread waited for a core for less than this share of it."""
_ADDED = {"sqrt": ("sqrt", "sqrt+"), "div": ("div", "div+")}
"""Functions with two ways that keep different units busy, so that a kernel can use both at a time."""
_ONE_WAY = ("exp", "log", "tanh", "erf")
_Key = tuple[str, int, int]
"""What, threads, bytes."""


@dataclass(frozen=True)
class _Reading:
    """One rate of one round."""

    rate: float
    """A second."""
    waited: float
    """Share of the sample for which a thread waited for a core; negative: not known."""

    @property
    def is_quiet(self) -> bool:
        return self.waited < QUIET


@dataclass(frozen=True)
class Figures:
    """Everything that one run of the probe printed."""

    threads: int
    chains: int
    rounds: tuple[dict[_Key, _Reading], ...]
    """By what, threads and bytes: the best reading of each round."""

    def best(self, size: int) -> Spread:
        """Return the bandwidth (GB/s) of all threads by the pattern that has the highest median."""
        names = {
            name for name, threads, bytes_ in self.rounds[0] if (threads, bytes_) == (self.threads, size)
        }
        return max((self._spread((name, self.threads, size)) for name in names), key=lambda s: s.median)

    def knows(self, size: int) -> bool:
        """Tell whether all threads were measured with this working set."""
        return any(key[1:] == (self.threads, size) for key in self.rounds[0])

    def rate(self, name: str, threads: int, size: int) -> float:
        """Return the bandwidth (GB/s) of one pattern."""
        return self._spread((name, threads, size)).median

    def curve(self, sizes: Iterable[int]) -> tuple[BandwidthPoint, ...]:
        """Return the best bandwidth by working set, growing."""
        spreads = {size: self.best(size) for size in sorted(sizes)}
        return tuple(
            BandwidthPoint(working_set=size, gbps=spread.median, high_gbps=spread.high)
            for size, spread in spreads.items()
        )

    def fma_check(self, instructions: int | None) -> FmaCheck:
        """Return the two rates of multiply-adds with the count of instructions."""
        written = self._spread(("fma_written", self.threads, 0)) if self._has("fma_written") else None
        return FmaCheck(
            chains=self.chains,
            instructions=instructions,
            compiled_gflops=self._spread(("fma_compiled", self.threads, 0)).median,
            written_gflops=None if written is None else written.median,
        )

    def fma(self, check: FmaCheck) -> Spread:
        """Return the rate of multiply-adds: of the instructions as written, where we know them.

        Otherwise what the compiler made, at the number of instructions that it has.
        """
        if self._has("fma_written"):
            return self._spread(("fma_written", self.threads, 0))
        found = self._spread(("fma_compiled", self.threads, 0))
        if check.is_whole or not check.instructions:
            return found
        share = min(check.instructions / check.chains, 1.0)
        scaled = {name: getattr(found, name) * share for name in ("low", "median", "high")}
        return found.model_copy(update=scaled)

    def fma_in_flight(self) -> float | None:
        """Return how many chains a thread needs to be at the rate of multiply-adds; None where not known."""
        if not self._has("fma_one_chain"):
            return None
        one, many = (self._spread((name, self.threads, 0)) for name in ("fma_one_chain", "fma_written"))
        return many.median / one.median

    def rounded(self, check: FmaCheck) -> float:
        """Return the rate of products of 16-bit numbers; that of float32 where nothing is faster."""
        known = [self._spread(("fma_rounded", self.threads, 0)).median] if self._has("fma_rounded") else []
        return max([*known, self.fma(check).median])

    def functions(self) -> dict[str, float]:
        """Return 1e9 evaluations a second by function."""
        ways = {**{name: (name,) for name in _ONE_WAY}, **_ADDED}
        return {
            name: sum(self._spread((way, self.threads, 0)).median for way in parts if self._has(way))
            for name, parts in ways.items()
            if self._has(name)
        }

    @property
    def waited(self) -> float | None:
        """Largest share of a sample that a thread waited, among the readings that figures rest on."""
        shares = [reading.waited for key in self.rounds[0] for reading in self._used(key)]
        known = [share for share in shares if share >= 0]
        return max(known) if known else None

    @property
    def is_noisy(self) -> bool:
        """True when some figure was quiet in less than half of the rounds."""
        needed = (len(self.rounds) + 1) // 2
        return any(
            sum(found[key].is_quiet for found in self.rounds if key in found) < needed
            for key in self.rounds[0]
        )

    def _has(self, name: str) -> bool:
        return (name, self.threads, 0) in self.rounds[0]

    def _used(self, key: _Key) -> list[_Reading]:
        """Return the quiet readings of a figure; where none was, the fastest: waiting only slows."""
        found = [readings[key] for readings in self.rounds if key in readings]
        fastest = max(found, key=lambda reading: reading.rate)
        return [reading for reading in found if reading.is_quiet] or [fastest]

    def _spread(self, key: _Key) -> Spread:
        rates = [reading.rate / 1e9 for reading in self._used(key)]
        return Spread(low=min(rates), median=statistics.median(rates), high=max(rates), repeats=len(rates))


def read_figures(output: str, threads: int) -> Figures:
    """Return the figures of the probe's lines ``NAME THREADS BYTES RATE WAITED``; ``end`` closes a round.

    Where a round has several lines about the same, ways of doing it, the fastest quiet one counts.

    Raises:
        MachineError: these are no such lines, or there is no whole round.
    """
    chains = 0
    rounds: list[dict[_Key, _Reading]] = []
    lines: defaultdict[_Key, list[_Reading]] = defaultdict(list)
    for words in map(str.split, output.splitlines()):
        try:
            name, used, size, rate, waited = words
            key, reading = (name, int(used), int(size)), _Reading(float(rate), float(waited))
        except ValueError as error:
            raise MachineError(f"the peak probe printed {' '.join(words)!r}, which is no figure") from error
        if name == "chains":
            chains = int(used)
        elif name == "end":
            rounds.append({key: _fastest(found) for key, found in lines.items()})
            lines.clear()
        else:
            lines[key].append(reading)
    if not rounds or not chains:
        raise MachineError("the peak probe ended before its first round did")
    return Figures(threads, chains, tuple(rounds))


def _fastest(found: Sequence[_Reading]) -> _Reading:
    quiet = [reading for reading in found if reading.is_quiet] or found
    return max(quiet, key=lambda reading: reading.rate)

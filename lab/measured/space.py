"""One measured space, and the tuner's view of it: points drawn from a table, times looked up."""

import gzip
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any

from kernelwright.core.errors import UserError
from kernelwright.core.open_parameters import NAME, open_parameters
from kernelwright.core.plan import ParamValue
from kernelwright.formats.kernel_tuner import PointTimes, read_results
from kernelwright.memory.tuned import EarlierTuning
from kernelwright.tuning.search import BASE, FINAL_SHARE, FirstCall, tune_points
from kernelwright.tuning.sources import OpenSource

Values = Mapping[str, ParamValue]
Key = tuple[ParamValue, ...]
SUFFIXES = ("_T4.json.gz", "_T4.json")


@dataclass(frozen=True)
class MeasuredSpace:
    """One kernel on one device, every point of it measured."""

    kernel: str
    device: str
    points: tuple[PointTimes, ...]

    @property
    def name(self) -> str:
        """Kernel and device."""
        return f"{self.kernel} {self.device}"

    @cached_property
    def parameters(self) -> dict[str, tuple[ParamValue, ...]]:
        """Name -> values that occur, in order; those of the first point that ran stand first."""
        default = next(point.values for point in self.points if point.times_ms)
        found = {}
        for name in self.points[0].values:
            others = sorted({point.values[name] for point in self.points} - {default[name]}, key=_order)
            found[name] = (default[name], *others)
        return found

    def ordered(self, name: str) -> tuple[ParamValue, ...]:
        """Return the values of a name in their own order."""
        return tuple(sorted(self.parameters[name], key=_order))

    @cached_property
    def table(self) -> dict[Key, PointTimes]:
        """The points by their values, in the order of the parameters."""
        return {self.key(point.values): point for point in self.points}

    @cached_property
    def times(self) -> dict[Key, float | None]:
        """Milliseconds, the mean as published; None: the point failed."""
        return {key: fmean(p.times_ms) if p.times_ms else None for key, p in self.table.items()}

    @cached_property
    def able(self) -> list[float]:
        """Milliseconds of all points that did not fail, fastest first."""
        return sorted(time for time in self.times.values() if time is not None)

    @property
    def best(self) -> float:
        """Milliseconds of the fastest point."""
        return self.able[0]

    @property
    def middle(self) -> float:
        """Milliseconds of the median point."""
        return median(self.able)

    def key(self, values: Values) -> Key:
        """Return the point's place in the table."""
        return tuple(values[name] for name in self.points[0].values)


def read_space(path: Path) -> MeasuredSpace:
    """Return the space in ``KERNEL/DEVICE_T4.json``, packed by gzip or not.

    Raises:
        UserError: it cannot be read, or nothing in it ran.
    """
    try:
        data = path.read_bytes()
        document: Any = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, EOFError, ValueError) as error:
        raise UserError(f"{path}: no T4 file: {error}") from error
    points = read_results(document)
    if not any(point.times_ms for point in points):
        raise UserError(f"{path}: nothing in it ran")
    device = next(path.name.removesuffix(end) for end in SUFFIXES if path.name.endswith(end))
    return MeasuredSpace(path.parent.name, device, points)


def read_spaces(folder: Path) -> list[MeasuredSpace]:
    """Return the spaces of a folder as the benchmark hub lays them out, in order of name.

    Raises:
        UserError: there is none, or one cannot be read.
    """
    paths = sorted(path for end in SUFFIXES for path in folder.glob(f"*/*{end}"))
    if not paths:
        raise UserError(f"{folder}: no KERNEL/DEVICE_T4.json.gz in it; give the hub's folder cachefiles")
    return [read_space(path) for path in paths]


class TableTimer:
    """The tuner's timer: a first call costs one evaluation, further calls of the same point cost none.

    What a call takes is drawn from the calls that were measured.
    """

    def __init__(self, space: MeasuredSpace, seed: int) -> None:
        self._space, self._rng = space, random.Random(seed)
        self._loaded: dict[int, Key] = {}
        self.order: list[Key] = []
        """Points in the order in which they were evaluated, each once."""

    def load(
        self,
        sources: Mapping[int, str],
        limit_s: float,
        keep: Sequence[int],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> dict[int, FirstCall]:
        """See ``tuning.search.Timer``; a second of the limit is an evaluation."""
        self._loaded = {number: key for number, key in self._loaded.items() if number in keep}
        found = {}
        for number, source in list(sources.items())[: max(0, int(limit_s + 1e-6))]:
            values = {name: one[0] for name, one in open_parameters(source).items()}
            key = self._space.key(values)
            self.order.append(key)
            self._loaded[number] = key
            why = self._space.table[key].why
            found[number] = FirstCall(why=why) if why else FirstCall(ratio=self._ratio(key))
        return found

    def time(self, points: Sequence[int], rounds: int, limit_s: float) -> dict[int, list[float]]:
        """See ``tuning.search.Timer``."""
        return {point: [self._call(self._loaded[point]) for _ in range(rounds)] for point in points}

    def _ratio(self, key: Key) -> float:
        return self._call(key) / self._call(self._loaded[BASE])

    def _call(self, key: Key) -> float:
        return self._rng.choice(self._space.table[key].times_ms)


def tuned_by_us(
    space: MeasuredSpace, budget: int, seed: int, earlier: Sequence[EarlierTuning] = ()
) -> list[Key]:
    """Return the points that our tuner evaluates, in order."""
    timer = TableTimer(space, seed)
    source = OpenSource(
        f"{NAME} = { {name: list(values) for name, values in space.parameters.items()}!r}\n",
        lambda values: space.key(values) in space.table,
    )
    clock: Callable[[], float] = lambda: float(len(timer.order))  # noqa: E731
    seconds = (budget - 1) / (1 - FINAL_SHARE)
    tune_points(source, timer, seconds=seconds, seed=seed, clock=clock, earlier=earlier)
    return timer.order[:budget]


def remembered(space: MeasuredSpace, order: Sequence[Key]) -> EarlierTuning:
    """Return what a tuning run leaves to others."""
    return EarlierTuning.of(space.device, [(space.table[key].values, space.times[key]) for key in order])


def _order(value: ParamValue) -> tuple[str, float, str]:
    is_number = isinstance(value, int | float)
    return ("", float(value), "") if is_number else ("text", 0.0, str(value))

"""Our tuner on measured spaces of real GPUs, against random search and Kernel Tuner's own strategies.

``FOLDER`` is the folder ``cachefiles`` of the benchmark hub of the auto-tuning community, or one like it:
``KERNEL/DEVICE_T4.json.gz``, every point of a kernel measured on a device. It is read where it lies.

Each method is given the same number of evaluations, with several seeds. ``cold`` is our tuner with nothing
but the space; ``warm`` knows what the cold runs of the same seed tried of the same kernel on the other
devices: as many points each, never the tables. ``by lot`` is random search without repetition. The others are
Kernel Tuner's, where the package is installed.

Devices that are held out take part only with ``--final``, which measures them alone, with memory from all
others. Runs are kept in ``--work`` as they end; the same command carries an interrupted one on.

Usage: python -m lab.benchmarks.measured_spaces FOLDER [--seeds 10] [--budget 200] [--final]
"""

import argparse
import json
import math
import random
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from kernelwright.memory.tuned import EarlierTuning
from lab.measured import strategies
from lab.measured.score import bootstrap, cutoff, evaluations_to, score
from lab.measured.space import Key, MeasuredSpace, read_spaces, remembered, tuned_by_us

COLD, WARM, LOT = "cold", "warm", "by lot"
HELD_OUT = ("A6000", "W7800")
NEAR = (0.05, 0.01)
"""Shares above the optimum to which evaluations are counted."""


@dataclass(frozen=True)
class MeasuredRun:
    """One method on one space with one seed."""

    space: str
    method: str
    seed: int
    order: tuple[int, ...]
    """Places in the table of the points it evaluated, in order."""

    @property
    def key(self) -> tuple[str, str, int]:
        """What it is a run of."""
        return self.space, self.method, self.seed


class Comparison:
    """All runs of all methods, made where they are missing."""

    def __init__(self, spaces: Sequence[MeasuredSpace], options: argparse.Namespace) -> None:
        self.spaces = {space.name: space for space in spaces}
        self.keys = {name: list(space.table) for name, space in self.spaces.items()}
        self._options = options
        self._kept = Path(options.work) / f"runs-{options.budget}.jsonl"
        self.runs: dict[tuple[str, str, int], MeasuredRun] = {}
        if self._kept.exists():
            for line in self._kept.read_text(encoding="utf-8").splitlines():
                run = MeasuredRun(**{**json.loads(line), "order": tuple(json.loads(line)["order"])})
                self.runs[run.key] = run

    def order(self, space: str, method: str, seed: int) -> list[Key]:
        """Return the points of a run."""
        return [self.keys[space][place] for place in self.runs[space, method, seed].order]

    def rows(self, names: Iterable[str], method: str) -> list[list[list[Key]]]:
        """Return for each space the runs of a method, one for each seed."""
        return [[self.order(name, method, seed) for seed in range(self._options.seeds)] for name in names]

    def play(self, names: Sequence[str], methods: Sequence[str]) -> None:
        """Make the runs that are missing; the warm ones need the cold ones of the other devices."""
        seeds = range(self._options.seeds)
        self._make((name, method, seed) for name in names for method in methods for seed in seeds)

    def _make(self, wanted: Iterator[tuple[str, str, int]]) -> None:
        missing = [one for one in wanted if one not in self.runs]
        jobs = [(self.spaces[n], m, s, self._options.budget, self._memory(n, m, s)) for n, m, s in missing]
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack, self._kept.open("a", encoding="utf-8") as kept:
            played: Iterator[list[Key]] = map(_played, jobs)
            if self._options.jobs > 1:
                played = stack.enter_context(ProcessPoolExecutor(self._options.jobs)).map(_played, jobs)
            for (name, method, seed), order in zip(missing, played, strict=True):
                places = {key: place for place, key in enumerate(self.keys[name])}
                run = MeasuredRun(name, method, seed, tuple(places[key] for key in order))
                self.runs[run.key] = run
                kept.write(json.dumps(asdict(run)) + "\n")
                kept.flush()

    def _memory(self, name: str, method: str, seed: int) -> list[EarlierTuning]:
        if method != WARM:
            return []
        own = self.spaces[name]
        return [
            remembered(other, self.order(other.name, COLD, seed))
            for other in self.spaces.values()
            if other.kernel == own.kernel and other.device not in (own.device, *HELD_OUT)
        ]


Job = tuple[MeasuredSpace, str, int, int, list[EarlierTuning]]


def _played(job: Job) -> list[Key]:
    space, method, seed, budget, memory = job
    if method in (COLD, WARM):
        return tuned_by_us(space, budget, seed, memory)
    if method == LOT:
        return random.Random(seed).sample(list(space.table), min(budget, len(space.table)))
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache.json"
        strategies.write_cache(space, cache)
        return strategies.tuned_by(method, space, cache, budget, seed)


def report(comparison: Comparison, names: Sequence[str], methods: Sequence[str], budget: int) -> list[str]:
    """Return the tables as Markdown."""
    lines = [
        "| method | score | evaluations to 5 % | to 1 % | reached 5 % | 1 % |",
        "|---|---|---|---|---|---|",
    ]
    spaces = [comparison.spaces[name] for name in names]
    for method in methods:
        rows = comparison.rows(names, method)
        scores = [[score(space, run, budget) for run in row] for space, row in zip(spaces, rows, strict=True)]
        low, high = bootstrap(scores)
        needed = {near: _needed(spaces, rows, near, budget) for near in NEAR}
        cells = [f"{fmean(map(fmean, scores)):.3f} [{low:.3f}, {high:.3f}]"]
        cells += [_geometric(needed[near], budget) for near in NEAR]
        cells += [f"{_reached(needed[near]):.0%}" for near in NEAR]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    if WARM in methods:
        lines += ["", *_warm_against_cold(comparison, names, budget)]
    lines += ["", *_by_space(comparison, names, methods, budget)]
    return lines


def _needed(
    spaces: Sequence[MeasuredSpace], rows: Sequence[Sequence[Sequence[Key]]], near: float, budget: int
) -> list[list[int | None]]:
    return [
        [evaluations_to(space, run, near, budget) for run in row]
        for space, row in zip(spaces, rows, strict=True)
    ]


def _logs(needed: Sequence[Sequence[int | None]], budget: int) -> list[list[float]]:
    """Return logarithms; a run that did not get there counts as if it had with its last evaluation."""
    return [[math.log(number or budget) for number in row] for row in needed]


def _geometric(needed: Sequence[Sequence[int | None]], budget: int) -> str:
    logs = _logs(needed, budget)
    low, high = bootstrap(logs)
    mark = "" if _reached(needed) == 1 else "≥ "
    return f"{mark}{math.exp(fmean(map(fmean, logs))):.1f} [{math.exp(low):.1f}, {math.exp(high):.1f}]"


def _reached(needed: Sequence[Sequence[int | None]]) -> float:
    return fmean(number is not None for row in needed for number in row)


def _warm_against_cold(comparison: Comparison, names: Sequence[str], budget: int) -> Iterator[str]:
    """Yield evaluations warm over cold, the runs of one seed held against each other."""
    spaces = [comparison.spaces[name] for name in names]
    for near in NEAR:
        warm, cold = (
            _logs(_needed(spaces, comparison.rows(names, method), near, budget), budget)
            for method in (WARM, COLD)
        )
        ratios = [[a - b for a, b in zip(*pair, strict=True)] for pair in zip(warm, cold, strict=True)]
        low, high = bootstrap(ratios)
        middle = math.exp(fmean(map(fmean, ratios)))
        yield (
            f"- evaluations to {near:.0%}, warm over cold: {middle:.2f} "
            f"[{math.exp(low):.2f}, {math.exp(high):.2f}]"
        )


def _by_space(
    comparison: Comparison, names: Sequence[str], methods: Sequence[str], budget: int
) -> Iterator[str]:
    yield f"| space | points | cutoff | {' | '.join(methods)} |"
    yield "|---" * (3 + len(methods)) + "|"
    for name in names:
        space = comparison.spaces[name]
        cells = [
            f"{fmean(score(space, run, budget) for run in comparison.rows([name], method)[0]):.2f}"
            for method in methods
        ]
        yield f"| {name} | {len(space.table)} | {cutoff(space)} | {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Make the runs and print the tables; with ``--out`` write them, too."""
    options = _options(argv)
    spaces = [s for s in read_spaces(options.folder) if not options.kernels or s.kernel in options.kernels]
    comparison = Comparison(spaces, options)
    seen = [space.name for space in spaces if space.device not in HELD_OUT]
    names = [space.name for space in spaces if space.device in HELD_OUT] if options.final else seen
    others = list(options.strategies) if strategies.is_there() else []
    methods = [COLD, WARM, LOT, *others]
    if options.final:
        comparison.play(seen, [COLD])
    comparison.play(names, [COLD])
    comparison.play(names, methods[1:])
    text = "\n".join(report(comparison, names, methods, options.budget)) + "\n"
    sys.stdout.write(text)
    if options.out:
        command = shlex.join(["python", "-m", "lab.benchmarks.measured_spaces", *sys.argv[1:]])
        package = f"Kernel Tuner {strategies.version()}" if others else "without Kernel Tuner"
        options.out.mkdir(parents=True, exist_ok=True)
        which = "final" if options.final else "development"
        path = options.out / f"{which}.md"
        path.write_text(f"`{command}`; {package}; data: {options.data}.\n\n{text}", encoding="utf-8")


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="with KERNEL/DEVICE_T4.json.gz")
    parser.add_argument("--kernels", nargs="*", default=[], help="only these")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=int, default=200, help="evaluations of a run")
    parser.add_argument("--strategies", nargs="*", default=strategies.STRATEGIES)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--final", action="store_true", help=f"measure {' and '.join(HELD_OUT)}")
    parser.add_argument("--data", default="as given", help="what the data is, with its commit")
    parser.add_argument("--work", type=Path, default=Path("out/measured"), help="where runs are kept")
    parser.add_argument("--out", type=Path, help="folder for the tables")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()

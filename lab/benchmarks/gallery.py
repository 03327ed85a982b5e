"""Models people have: the speedup in a user's own process, beside the referee's figure and torch.compile.

Each case of ``lab/gallery.py`` is optimised at a usual size and saved. Fresh processes then do what a user
does: make the model, load the folder, call both. A process calls the original, the delivered module and
torch.compile of the original in turn, in random order; its figure is the median of the rounds' ratios. The
interval is Student's t over the processes, as the referee's is. A row is appended to ``rows.jsonl`` in
``--work`` as it comes; the same command goes on with what is missing there.

Needs the extra ``gallery``; a case whose package is missing is named and left out. Measure where
nothing else runs.

Usage: python -m lab.benchmarks.gallery [--only GLOB] [--work FOLDER] [--evaluations 16] [--threads 2]
       [--processes 5] [--rounds 40] [--batch 2] [--small]
"""

import argparse
import fnmatch
import json
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import kernelwright
from kernelwright.core.budget import Budget
from kernelwright.core.errors import KernelwrightError
from kernelwright.core.evaluation import Evaluation
from kernelwright.referee.timing.statistics import over_processes
from kernelwright.report.measures import speedup_over
from lab.benchmarks import ROOT
from lab.gallery import CASES, SMALL, USUAL, Size, cast, made

SAMPLE_S = 0.02
"""A sample calls as often as fits, at least once."""
HEADER = ("Model", "Delivered", "Own process", "Referee", "torch.compile, own process", "Referee's")
Ratio = tuple[float, float, float]
"""Median, low and high."""


def main(words: Sequence[str]) -> None:
    """Measure every case that has no row yet, and print the table."""
    options = _options(words)
    size = SMALL if options.small else USUAL
    if options.time is not None:
        json.dump(_timed(options.time, options.folder, size, options), sys.stdout)
        return
    options.work.mkdir(parents=True, exist_ok=True)
    rows = options.work / "rows.jsonl"
    known = {row["case"]: row for row in _read(rows)}
    for case in (case for case in CASES if fnmatch.fnmatch(case, options.only)):
        if case not in known:
            try:
                known[case] = _row(case, size, options)
            except ImportError as error:
                sys.stderr.write(f"{case}: left out, {error}\n")
                continue
            with rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(known[case]) + "\n")
        sys.stderr.write(f"{' | '.join(_cells(known[case]))}\n")
    for cells in (HEADER, ["---"] * len(HEADER), *(_cells(known[case]) for case in CASES if case in known)):
        sys.stdout.write(f"| {' | '.join(cells)} |\n")


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="*", help="a pattern of cases, such as '*norm, float32'")
    parser.add_argument("--work", type=Path, default=Path("gallery"))
    parser.add_argument("--evaluations", type=int, default=16, help="budget of each search")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="the sizes of the tests: to see that it works")
    parser.add_argument("--time", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.processes < 2 or options.rounds < 1:
        parser.error("--processes: at least 2, for an interval; --rounds: at least 1")
    return options


def _read(rows: Path) -> list[dict[str, Any]]:
    """Return the rows that are whole; one that was being written when the machine stopped is not."""
    found = []
    for line in rows.read_text(encoding="utf-8").splitlines() if rows.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _row(case: str, size: Size, options: argparse.Namespace) -> dict[str, Any]:
    """Optimise a case, time what is delivered in processes of its own, and return the row."""
    entry, dtype, module = made(case, size)
    row: dict[str, Any] = {"case": case, "threads": options.threads, "torch": torch.__version__}
    try:
        result = kernelwright.optimize(
            module,
            cast(entry.inputs(size, options.batch), dtype),
            name=case.replace(", ", "_").replace(" ", "_"),
            budget=Budget(evaluations=options.evaluations),
            baselines=("eager", "torch_compile"),
            store=str(options.work / "runs.db"),
            progress=False,
        )
        row |= {"run": result.run_id, "reason": result.reason, "referee": _of_referee(result.evaluation)}
        if result.winner is None:
            return {**row, "delivered": "unchanged"}
        folder = result.save(options.work / "folders" / case.replace(", ", "_").replace(" ", "_"))
    except KernelwrightError as error:
        return {**row, "delivered": f"not: {error}"}
    logs = [_in_process(case, folder, options, number) for number in range(options.processes)]
    own = {name: over_processes(name, [one[name] for one in logs]) for name in logs[0]}
    blocks = None if result.composition is None else result.composition.words
    return {
        **row,
        "delivered": blocks or "a kernel",
        "own": {name: (found.ratio, found.low, found.high) for name, found in own.items()},
    }


def _of_referee(evaluation: Evaluation | None) -> dict[str, Ratio]:
    """Return the final verdict's speedups, of an ordinary process."""
    if evaluation is None:
        return {}
    found = {name: speedup_over(evaluation, name) for name in ("eager", "torch_compile")}
    return {name: (over.ratio, over.low, over.high) for name, over in found.items() if over is not None}


def _in_process(case: str, folder: Path, options: argparse.Namespace, seed: int) -> dict[str, float]:
    """Return the logarithms of the median ratios in a fresh process."""
    words = ["--time", case, "--folder", folder, "--rounds", options.rounds, "--threads", options.threads]
    words += ["--batch", options.batch, *(["--small"] if options.small else [])]
    done = subprocess.run(
        [sys.executable, "-m", "lab.benchmarks.gallery", *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _timed(case: str, folder: Path, size: Size, options: argparse.Namespace) -> dict[str, float]:
    """Time the original, the delivered module and torch.compile here, as a user's program would call them."""
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    entry, dtype, module = made(case, size)
    args = cast(entry.inputs(size, options.batch), dtype)
    ways: dict[str, Callable[..., Any]] = {
        "eager": module,
        "delivered": kernelwright.load(folder, module),
        "torch_compile": torch.compile(module, dynamic=False),
    }
    samples: dict[str, list[float]] = {name: [] for name in ways}
    with torch.no_grad():
        counts = {name: _calls_in_a_sample(call, args) for name, call in ways.items()}
        for _ in range(options.rounds):
            for name in random.sample(list(ways), len(ways)):
                samples[name].append(_seconds(ways[name], args, counts[name]))
    fast = torch.tensor(samples["delivered"])
    return {
        name: float((torch.tensor(samples[name]) / fast).log().median())
        for name in ("eager", "torch_compile")
    }


def _calls_in_a_sample(call: Callable[..., Any], args: tuple[Any, ...]) -> int:
    for _ in range(3):
        call(*args)
    return max(1, round(SAMPLE_S / max(_seconds(call, args, 3), 1e-7)))


def _seconds(call: Callable[..., Any], args: tuple[Any, ...], times: int) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    for _ in range(times):
        call(*args)
    return (time.perf_counter() - start) / times


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    own, referee = row.get("own", {}), row.get("referee", {})
    over = [found.get(name) for name in ("eager", "torch_compile") for found in (own, referee)]
    return (row["case"], row["delivered"], *(_text(ratio) for ratio in over))


def _text(ratio: Ratio | None) -> str:
    return "" if ratio is None else "{:.2f} [{:.2f}, {:.2f}]".format(*ratio)


if __name__ == "__main__":
    main(sys.argv[1:])

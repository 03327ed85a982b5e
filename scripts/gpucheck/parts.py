"""The parts of the check: what each runs, its share of the time, and where its findings lie."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpucheck.results import load

SUITE = "src/kernelwright/tasks/suite"
BENCHES = ("suite", "kernelbench", "finals")
LEVELS = ("level1", "level2", "level3")
GOLDEN = 0.6180339887498949
EVALUATIONS = 4
"""For each task: seeds and a move or two."""
TASK_S = 20.0
"""Search time of one task at most; what it takes to open the task, and a final measurement, come on top."""
LAST_TASK_S, LAST_FINAL_S = 30.0, 75.0
"""Kept free at the end of a bench for the task begun last; a final one that lacks it is not begun."""
FINALS_S = LAST_FINAL_S + 15.0
"""With less than this no final bench is begun: torch and the referee start first."""
LAST_S = 15.0
"""The same at the end of a benchmark."""
TRIALS = 5
"""Of kernels against themselves: a search of each kind."""
BASELINES = ("eager", "eager_tf32", "torch_compile", "torch_compile_max_autotune")
"""Of final measurements; eager computes in FP32."""
ASK_S = 60.0
MARK = "mark.gpu"


@dataclass(frozen=True)
class Place:
    """Where the check runs and what it was given."""

    root: Path
    """Of the repository."""
    out: Path
    target: str
    """``cuda/triton`` or ``hip/triton``."""
    kernelbench: Path | None
    environment: dict[str, str]
    """Of every command: where our packages are found, a cache of its own."""
    python: str = sys.executable
    again: bool = False
    """True where nothing that earlier commands have left is gone on with."""

    @property
    def store(self) -> Path:
        """Of all runs of the check."""
        return self.out / "runs.db"


@dataclass(frozen=True)
class Skip:
    """A part that is not begun."""

    reason: str
    is_late: bool = False
    """True where more time would do; else it cannot be done here."""


Make = Callable[[Place, float], "Sequence[str] | Skip"]
"""Returns the command of a part for so many seconds."""


@dataclass(frozen=True)
class Part:
    """One part; ``share`` is of the time that all parts from here on have together."""

    name: str
    title: str
    share: float
    make: Make
    carries_on: bool = False
    """True where its command goes on with what an earlier one has left."""
    needs_verdicts: bool = False
    """True where nothing can come of it when the first part could not have a right kernel judged."""


def _start(place: Place, seconds: float) -> list[str]:
    return [place.python, "-m", "gpucheck.start", str(place.out), *place.target.split("/")]


def _tests(place: Place, seconds: float) -> list[str]:
    results = place.out / "tests" / "junit.xml"
    options = ["-m", "gpu", "-p", "no:cacheprovider", "-o", "filterwarnings=default", "-rs"]
    where = ["--rootdir", str(place.root), f"--junitxml={results}", *map(str, gpu_tests(place.root))]
    return [place.python, "-m", "pytest", *options, *where]


def gpu_tests(root: Path) -> list[Path]:
    """Return the files with a test marked ``gpu``, generated kernels first, for the case that time runs out.

    To collect others takes packages that are not packed.
    """
    files = sorted((root / "tests").rglob("test_*.py"), key=lambda file: ("triton" not in file.parts, file))
    return [file for file in files if MARK in file.read_text(encoding="utf-8")]


def _cheats(place: Place, seconds: float) -> list[str]:
    device = place.target.partition("/")[0]
    return _ours(place, "audit", "--device", device, "--out", str(place.out / "cheats"), "--resume", "--json")


def _honest(place: Place, seconds: float) -> list[str]:
    words = ["--runs", "1", "--per-task", "0", "--work", str(place.out / "honest")]
    return _benchmark(place, "honest", seconds, words)


def _noise(place: Place, seconds: float) -> list[str]:
    return _benchmark(place, "noise", seconds, ["--limit", str(TRIALS)])


def _benchmark(place: Place, name: str, seconds: float, words: Sequence[str]) -> list[str]:
    """Return one of the benchmarks, on the device, with nothing begun in the last seconds."""
    device = place.target.partition("/")[0]
    stop = max(seconds - LAST_S, seconds / 2)
    how = ["--device", device, "--out", str(place.out / name), "--seconds", f"{stop:.0f}"]
    return [place.python, "-m", f"lab.benchmarks.{name}", *how, *words]


def _suite(place: Place, seconds: float) -> list[str]:
    files = spread(list((place.root / SUITE).glob("[0-9]*.py")))
    return _bench(place, "suite", [str(file) for file in files], seconds)


def _finals(place: Place, seconds: float) -> list[str] | Skip:
    """Of the tasks that were faster in the search, in the order of the suite."""
    quick = load(place.out, "suite")
    rows = quick.figures.get("rows", []) if quick else []
    faster = {row["task"] for row in rows if row["ending"] == "faster"}
    files = [file for file in spread(list((place.root / SUITE).glob("[0-9]*.py"))) if file.stem in faster]
    if not files:
        return Skip("no task of our suite was faster in the search")
    if seconds < FINALS_S:
        why = f"it needs {FINALS_S:.0f} s and had {seconds:.0f} s; go on with --resume"
        return Skip(why, is_late=True)
    return _bench(place, "finals", [str(file) for file in files], seconds, BASELINES)


def _kernelbench(place: Place, seconds: float) -> list[str] | Skip:
    folder = place.kernelbench
    if folder is None:
        return Skip("no KernelBench problems: name their folder with --kernelbench")
    files = problems(folder)
    if not files:
        return Skip(f"{folder}: no {', '.join(LEVELS)} with problems in it")
    return _bench(place, "kernelbench", [str(file) for file in files], seconds)


def _profile(place: Place, seconds: float) -> list[str] | Skip:
    kept = [load(place.out, name) for name in BENCHES]
    if not any(result.figures.get("rows") for result in kept if result is not None):
        return Skip("no bench has left a task to profile")
    device = place.target.partition("/")[0]
    return [place.python, "-m", "gpucheck.profile_slowest", str(place.out), device, f"{seconds * 0.9:.0f}"]


START = "start"
PARTS = (
    Part(START, "What everything stands on", 15, _start),
    Part("tests", "The tests that need a GPU", 11, _tests),
    Part(
        "cheats", "Cheats and hostile programs on the GPU", 10, _cheats, carries_on=True, needs_verdicts=True
    ),
    Part("honest", "Honest kernels for a GPU", 6, _honest, carries_on=True, needs_verdicts=True),
    Part("suite", "Our suite, by the search's own verdicts", 14, _suite, needs_verdicts=True),
    Part("kernelbench", "Problems of KernelBench, likewise", 9, _kernelbench, needs_verdicts=True),
    Part("finals", "Final measurements over every baseline", 18, _finals, needs_verdicts=True),
    Part("profile", "The five slowest, profiled", 13, _profile, needs_verdicts=True),
    Part("noise", "Kernels against themselves", 4, _noise, carries_on=True, needs_verdicts=True),
)


def problems(folder: Path) -> list[Path]:
    """Return the problems so that any beginning of the list is spread over all levels and kinds."""
    placed = []
    for level in LEVELS:
        files = spread(list((folder / level).glob("[0-9]*.py")))
        placed += [((place + 0.5) / len(files), level, file) for place, file in enumerate(files)]
    return [file for _, _, file in sorted(placed, key=lambda entry: entry[:2])]


def spread(files: Sequence[Path]) -> list[Path]:
    """Return numbered files so that any beginning has some of all: at multiples of the golden ratio."""
    ordered = sorted(files, key=lambda file: (_number(file), file.name))
    return [ordered[i] for i in sorted(range(len(ordered)), key=lambda i: (i + 1) * GOLDEN % 1.0)]


def _number(file: Path) -> int:
    digits = file.name.partition("_")[0]
    return int(digits) if digits.isdigit() else 0


def _bench(
    place: Place, name: str, sources: list[str], seconds: float, baselines: Sequence[str] = ()
) -> list[str]:
    """Return the bench over these files: quick, or final over these baselines."""
    title, has_begun = _experiment(place, f"gpu-check-{name}")
    how, stop = ["--quick"], max(seconds - LAST_TASK_S, seconds / 2, 1.0)
    if baselines:
        how = ["--no-profile", *(word for baseline in baselines for word in ("--baseline", baseline))]
        stop = seconds - LAST_FINAL_S
    return _ours(
        place, "bench", *sources, "--resume" if has_begun else "--name", title, "--target", place.target,
        "--team", "expert", *how, "--budget-evaluations", str(EVALUATIONS), "--budget-seconds", f"{TASK_S:g}",
        "--stop-after", f"{stop:.0f}", "--store", str(place.store), "--out", str(place.out / name), "--json",
    )  # fmt: skip


def _experiment(place: Place, name: str) -> tuple[str, bool]:
    """Return the title of the latest bench of this name, or of a new one, and whether it has begun."""

    def title(number: int) -> str:
        return name if number == 1 else f"{name}-{number}"

    number = 1
    while _has_runs(place, title(number)):
        number += 1
    has_begun = number > 1 and not place.again
    return title(number - 1 if has_begun else number), has_begun


def _has_runs(place: Place, title: str) -> bool:
    """Tell whether an earlier check has begun this bench."""
    if not place.store.exists():
        return False
    ask = _ours(
        place, "runs", "list", "--experiment", title, "--limit", "1", "--store", str(place.store), "--json"
    )
    done = subprocess.run(
        ask, capture_output=True, text=True, timeout=ASK_S, env=place.environment, check=False
    )
    return done.returncode == 0 and done.stdout.strip() not in ("", "[]")


def _ours(place: Place, *words: str) -> list[str]:
    return [place.python, "-m", "kernelwright", *words]


def find_kernelbench(root: Path, named: Path | None) -> Path | None:
    """Return the folder that holds ``level1``: the one named, else one beside the sources or above them."""
    candidates = [named] if named else [root / "KernelBench", root.parent / "KernelBench"]
    for folder in candidates:
        for place in (folder, folder / "KernelBench"):
            if (place / LEVELS[0]).is_dir():
                return place
    return named

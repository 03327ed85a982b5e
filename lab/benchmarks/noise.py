"""Does noise fool the referee: kernels against themselves, and against 5 % more work.

An *A/A trial* judges a candidate that is the reference's own code: whatever but ``no_significant_change``
is a false call. In a *difference trial* one side makes 5 % more of the same library calls and throws their
results away, so that the true ratio is known. Both go through the real referee, each in a session of its
own, as a search measurement or as a final one, on a quiet machine or under a load that this program makes:

* one_core, two_cores: so many processes that never rest
* rising: one whose share of its core rises from nothing to all within seconds
* alternating: one that works and rests in turn, as long as a sample of the referee lasts

Every trial is appended to ``trials.jsonl`` when it has ended; the same command carries on with the missing
ones. Trials are in an order that keeps the cells even, so ``--limit`` gives a small but whole picture.

``--device cuda`` makes them on a GPU, with kernels at sizes of its own. No trial was made on one yet.

Usage: python -m lab.benchmarks.noise [--device cuda] [--limit N] [--seconds S] [--out FOLDER]
"""

import argparse
import contextlib
import datetime
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import KernelwrightError, UserError
from kernelwright.core.intervals import wilson
from kernelwright.core.task import Task
from kernelwright.referee.device import parse_device
from kernelwright.referee.session.referee import Referee, RefereeSettings
from kernelwright.referee.timing.statistics import NORMAL_975
from kernelwright.settings import load_settings
from kernelwright.targets.gpu.driver_files import find_gpus
from lab.benchmarks import RESULTS
from lab.footer import environment, footer
from lab.trials import row_line, rows_in

STATED_SHARE = 0.05
"""Of measurements of equal kernels, at most so many are called faster or slower."""
MORE_WORK = 1.05
FAULT, INTERRUPTED = 2, 130
TRIALS_FILE = "trials.jsonl"

SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
{body}
        return y

def get_inputs():
    return [torch.randn({shape})]

def get_init_inputs():
    return []
"""


@dataclass(frozen=True)
class Kernel:
    """Two sources that compute the same, and how their latencies compare in truth."""

    name: str
    reference: str
    candidate: str
    """Still named Model."""
    truth: float
    """Latency of the reference over that of the candidate."""


def _source(shape: str, *lines: str) -> str:
    return SOURCE.format(shape=shape, body="\n".join(f"        {line}" for line in lines))


def _equal(name: str, shape: str, *lines: str) -> Kernel:
    source = _source(shape, *lines)
    return Kernel(name, source, source, 1.0)


def _different(name: str, shape: str, call: str, count: int) -> list[Kernel]:
    """Return the pair that differs by ``MORE_WORK``, both ways round."""
    more = round(count * MORE_WORK)
    repeat = (f"for _ in range({count}):", f"    y = {call}(y)")
    lean = _source(shape, "y = x", *repeat)
    fat = _source(shape, f"for _ in range({more - count}):", f"    {call}(x)", "y = x", *repeat)
    return [
        Kernel(f"{name}_faster", fat, lean, more / count),
        Kernel(f"{name}_slower", lean, fat, count / more),
    ]


EQUAL = [
    _equal("small_pointwise", "256, 1024", "y = torch.tanh(x) * torch.sigmoid(x)"),
    _equal("large_pointwise", "3000, 3000", "y = torch.relu(x) * 2 + 1"),
    _equal("matmul", "768, 768", "y = torch.relu(x @ x)"),
    _equal("reduction", "2048, 2048", "y = torch.softmax(x, dim=1)"),
    _equal("many_small_ops", "64, 64", "y = x", "for _ in range(30):", "    y = torch.sin(y) + 0.1 * y"),
]
DIFFERENT = [
    *_different("in_cache", "64, 1024", "torch.tanh", 100),
    *_different("streaming", "2048, 2048", "torch.relu", 20),
]
ON_GPU = [
    _equal("gpu_pointwise", "2048, 4096", "y = torch.tanh(x) * torch.sigmoid(x)"),
    _equal("gpu_matmul", "4096, 4096", "y = torch.relu(x @ x)"),
    _equal("gpu_reduction", "8192, 4096", "y = torch.softmax(x, dim=1)"),
    _equal("gpu_large_pointwise", "8192, 8192", "y = torch.relu(x) * 2 + 1"),
    _equal("gpu_launches", "64, 64", "y = x", "for _ in range(30):", "    y = torch.sin(y) + 0.1 * y"),
]
"""At the sizes above a call takes no longer on a GPU than its launch does, and nothing else would be tried:
here only ``gpu_launches`` is of that kind."""
DIFFERENT_ON_GPU = [
    *_different("gpu_tanh", "2048, 4096", "torch.tanh", 60),
    *_different("gpu_streaming", "8192, 4096", "torch.relu", 20),
]
LOADS = ("quiet", "one_core", "two_cores", "rising", "alternating")
LARGE = (
    *("large_pointwise", "reduction", "streaming_faster", "streaming_slower"),
    *(kernel.name for kernel in (*ON_GPU, *DIFFERENT_ON_GPU) if kernel.name != "gpu_launches"),
)
"""Those whose inputs and outputs do not fit into the caches, as the referee counts."""
SPREADS = (0.01, 0.02, 0.05, 0.1, 0.2)
Question = Literal["equal", "different"]
REPEATS: dict[tuple[Question, bool], dict[str, int]] = {
    ("equal", False): dict.fromkeys(LOADS, 10) | {"quiet": 14},
    ("equal", True): dict.fromkeys(LOADS, 1) | {"quiet": 3},
    ("different", False): dict.fromkeys(LOADS, 1) | {"quiet": 4},
    ("different", True): {"quiet": 2},
}
"""Trials of a kernel, by question and ``is_final``, under each load. Under a load a final waits minutes
for quiet: one of each equal kernel shows false calls there, and differences are not tried."""


@dataclass(frozen=True)
class Cell:
    """One trial to be made."""

    question: Question
    is_final: bool
    kernel: Kernel
    load: str
    turn: int

    @property
    def key(self) -> str:
        """Identity of the trial in the file."""
        kind = "final" if self.is_final else "search"
        return f"{self.question}/{kind}/{self.kernel.name}/{self.load}/{self.turn}"


@dataclass(frozen=True)
class Trial:
    """One trial as it ended."""

    key: str
    question: Question
    is_final: bool
    kernel: str
    load: str
    truth: float
    status: str
    detail: str
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str | None
    """None when the candidate was not verified."""
    n_samples: int | None
    seconds: float
    spread: float = 0.0
    """Of processes, by which the interval was widened; 0 for a final, which measures it."""

    def verdict_with(self, spread: float) -> str | None:
        """Return what the verdict of a search would be, were its interval widened by another spread."""
        if self.ratio is None or self.low is None or self.high is None:
            return None
        below, above = (abs(math.log(end / self.ratio)) for end in (self.low, self.high))
        had, wanted = NORMAL_975 * self.spread, NORMAL_975 * spread
        below, above = (math.hypot(math.sqrt(max(h * h - had * had, 0.0)), wanted) for h in (below, above))
        centre = math.log(self.ratio)
        if centre - below > 0:
            return "faster"
        return "slower" if centre + above < 0 else "no_significant_change"

    @property
    def is_false_call(self) -> bool:
        """True when equal kernels were told apart, or a difference was seen the wrong way round."""
        wrong = {"equal": ("faster", "slower"), "different": ("slower" if self.truth > 1 else "faster",)}
        return self.verdict in wrong[self.question]

    @property
    def is_found(self) -> bool:
        """True when a true difference was called the right way."""
        return self.verdict == ("faster" if self.truth > 1 else "slower")


def plan(*, is_gpu: bool = False) -> list[Cell]:
    """Return all trials; every beginning of the list is spread over the cells."""
    equal, different = (ON_GPU, DIFFERENT_ON_GPU) if is_gpu else (EQUAL, DIFFERENT)
    kinds = [(question, is_final) for question, is_final in REPEATS]
    most = max(count for repeats in REPEATS.values() for count in repeats.values())
    return [
        Cell(question, is_final, kernel, load, turn)
        for turn in range(most)
        for load in LOADS
        for question, is_final in kinds
        if turn < REPEATS[question, is_final].get(load, 0)
        for kernel in (equal if question == "equal" else different)
    ]


HOG = """
import os, sys, time
kind, parent, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
period = 0.02
begin = time.perf_counter()
while os.getppid() == parent:
    now = time.perf_counter()
    share = {"rising": min((now - begin) / seconds, 1.0), "alternating": 0.5}.get(kind, 1.0)
    until = now + share * period
    while time.perf_counter() < until:
        pass
    time.sleep((1 - share) * period)
"""
RISES_IN_S = 6.0


@contextlib.contextmanager
def load(kind: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep the machine busy in a way while the context lasts."""
    count = {"quiet": 0, "two_cores": 2}.get(kind, 1)
    command = [sys.executable, "-c", HOG, kind, str(os.getpid()), str(RISES_IN_S)]
    hogs = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield hogs
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def judge(referee: Referee, settings: RefereeSettings, cell: Cell) -> Trial:
    """Make one trial in a session of its own."""
    kernel = cell.kernel
    task = Task(name=kernel.name, source=kernel.reference)
    candidate = Candidate(source=kernel.candidate.replace("class Model(", "class ModelNew("))
    begin = time.perf_counter()
    with load(cell.load), referee.open(task) as session:
        evaluation = session.evaluate(candidate, final=cell.is_final)
    result = evaluation.told[0] if evaluation.told else None
    speedup = result.speedup("eager") if result else None
    return Trial(
        key=cell.key,
        question=cell.question,
        is_final=cell.is_final,
        kernel=kernel.name,
        load=cell.load,
        truth=kernel.truth,
        status=str(evaluation.status),
        detail=evaluation.detail,
        ratio=speedup.ratio if speedup else None,
        low=speedup.low if speedup else None,
        high=speedup.high if speedup else None,
        verdict=speedup.verdict if speedup else None,
        n_samples=result.candidate.n_samples if result else None,
        seconds=time.perf_counter() - begin,
        spread=0.0 if cell.is_final else spread_of(kernel, settings),
    )


def spread_of(kernel: Kernel, settings: RefereeSettings) -> float:
    """Return the setting that holds for a kernel's sizes."""
    return settings.large_process_spread if kernel.name in LARGE else settings.process_spread


def read_trials(file: Path) -> list[Trial]:
    """Read what an earlier command made with this referee."""
    return [Trial(**row) for row in rows_in(file)]


def carry_on(
    file: Path, cells: Sequence[Cell], make: Callable[[Cell], Trial], seconds: float = math.inf
) -> list[Trial]:
    """Make the trials that the file lacks and append each; return those of the cells.

    After so many seconds no further one is begun.
    """
    ends = time.monotonic() + seconds
    made = {trial.key: trial for trial in read_trials(file)}
    file.parent.mkdir(parents=True, exist_ok=True)
    whole = "".join(row_line(asdict(trial)) for trial in made.values())
    file.write_text(whole, encoding="utf-8")
    for n, cell in enumerate(cells, 1):
        if cell.key in made:
            continue
        if time.monotonic() > ends:
            break
        made[cell.key] = trial = make(cell)
        with file.open("a", encoding="utf-8") as lines:
            lines.write(row_line(asdict(trial)))
        ratio = "-" if trial.ratio is None else f"{trial.ratio:.3f} [{trial.low:.3f}, {trial.high:.3f}]"
        mark = "  <-- false call" if trial.is_false_call else ""
        said = f"{trial.verdict or trial.status} {ratio} {trial.seconds:.1f} s{mark}"
        sys.stderr.write(f"{n}/{len(cells)} {trial.key}: {said}\n")
    return [made[cell.key] for cell in cells if cell.key in made]


@dataclass(frozen=True)
class Share:
    """How many of a group's trials were called."""

    group: str
    n_trials: int
    n_called: int
    low: float
    high: float
    n_unverified: int
    """Trials in which an honest kernel was not verified; not among the ``n_trials``."""
    bias: float | None
    """Geometric mean of measured over true ratio."""
    spread: float | None
    """Standard deviation of the logarithm of measured over true ratio."""


def share_of(group: str, trials: Sequence[Trial], is_called: Callable[[Trial], bool]) -> Share:
    """Count a group."""
    judged = [trial for trial in trials if trial.verdict is not None]
    called = sum(is_called(trial) for trial in judged)
    logs = [math.log(trial.ratio / trial.truth) for trial in judged if trial.ratio]
    return Share(
        group,
        len(judged),
        called,
        *wilson(called, len(judged), NORMAL_975),
        n_unverified=len(trials) - len(judged),
        bias=math.exp(statistics.fmean(logs)) if logs else None,
        spread=statistics.stdev(logs) if len(logs) > 1 else None,
    )


def shares(trials: Sequence[Trial], question: Question, *, is_final: bool) -> list[Share]:
    """Return all trials of a kind, then by load, then by kernel."""
    mine = [t for t in trials if t.question == question and t.is_final == is_final]

    def is_called(trial: Trial) -> bool:
        return trial.is_false_call if question == "equal" else trial.is_found

    found = [share_of("all", mine, is_called)]
    for load_name in LOADS:
        found.append(share_of(load_name, [t for t in mine if t.load == load_name], is_called))
    for kernel in dict.fromkeys(t.kernel for t in mine):
        found.append(share_of(kernel, [t for t in mine if t.kernel == kernel], is_called))
    return [share for share in found if share.n_trials or share.n_unverified]


TITLES: dict[tuple[Question, bool], str] = {
    ("equal", False): "Equal kernels, search measurements: false calls",
    ("equal", True): "Equal kernels, final measurements: false calls",
    ("different", False): f"{MORE_WORK - 1:.0%} difference, search measurements: found",
    ("different", True): f"{MORE_WORK - 1:.0%} difference, final measurements: found",
}


def render(trials: Sequence[Trial], about: Mapping[str, Any]) -> str:
    """Return the result as Markdown."""
    lines = ["# Noise", ""]
    for kind, title in TITLES.items():
        question, is_final = kind
        found = shares(trials, question, is_final=is_final)
        if not found:
            continue
        mine = [t for t in trials if (t.question, t.is_final) == kind]
        heads = ["n", "called", "share", "95 %", "bias", "sd of log", "not verified"]
        lines += [f"## {title}", "", f"| trials | {' | '.join(heads)} |", "|---|" + len(heads) * "---:|"]
        lines += [_row(share) for share in found]
        lines += ["", f"{statistics.median(t.seconds for t in mine):.1f} s a trial (median)."]
        if question == "different":
            wrong = sum(t.is_false_call for t in mine)
            lines[-1] += f" Called the wrong way round: {wrong} of {len(mine)}."
        lines.append("")
    lines += spread_lines(trials)
    lines += [footer(about, about["gpus"]), "", f"Command: `{about['command']}`"]
    return "\n".join(lines) + "\n"


def spread_lines(trials: Sequence[Trial]) -> list[str]:
    """Return a table: false calls of the same searches, were ``process_spread`` another."""
    small = [t for t in trials if t.question == "equal" and not t.is_final and t.kernel not in LARGE]
    if not small:
        return []
    lines = [
        "## Equal kernels in cache, search measurements: false calls by `process_spread`",
        "",
        f"The same {len(small)} trials, their intervals widened by another spread after the fact.",
        "",
        "| process_spread | called | share |",
        "|---:|---:|---:|",
    ]
    for spread in SPREADS:
        called = sum(t.verdict_with(spread) in ("faster", "slower") for t in small)
        lines.append(f"| {spread} | {called} | {called / len(small):.1%} |")
    return [*lines, ""]


def _row(share: Share) -> str:
    of_all = f"{share.n_called / share.n_trials:.1%}" if share.n_trials else ""
    bias = "" if share.bias is None else f"{share.bias:.3f}"
    spread = "" if share.spread is None else f"{share.spread:.3f}"
    return (
        f"| {share.group} | {share.n_trials} | {share.n_called} | {of_all} "
        f"| {share.low:.1%} to {share.high:.1%} | {bias} | {spread} | {share.n_unverified} |"
    )


def holds(trials: Sequence[Trial]) -> bool:
    """Tell whether the trials are in line with the stated share of false calls and no kernel was refused."""
    kinds = [shares(trials, "equal", is_final=is_final) for is_final in (False, True)]
    return all(t.verdict is not None for t in trials) and all(
        found[0].low <= STATED_SHARE for found in kinds if found
    )


def main() -> int:
    """Make the trials, print, write; exit code 1 when they contradict what is stated, 2 for a fault."""
    parser = argparse.ArgumentParser(description="A/A trials and trials with a known difference.")
    parser.add_argument("--device", default="cpu", help="where they are judged: cpu, cuda, cuda:N, hip ...")
    parser.add_argument("--limit", type=int, help="first so many trials only")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no trial after so many")
    parser.add_argument("--out", type=Path, help="default: benchmarks/results/noise, or noise-DEVICE")
    options = parser.parse_args()
    try:
        device = parse_device(options.device)
    except UserError as error:
        parser.error(str(error))
    folder = RESULTS / ("noise" if device.kind == "cpu" else f"noise-{device.kind}")
    out: Path = options.out or folder
    cells = plan(is_gpu=device.has_driver)[: options.limit]
    settings = RefereeSettings(cache_dir=load_settings().cache_dir, device=options.device)
    is_interrupted = False
    try:
        with Referee(settings) as referee:
            carry_on(out / TRIALS_FILE, cells, lambda cell: judge(referee, settings, cell), options.seconds)
    except KeyboardInterrupt:
        is_interrupted = True
    except KernelwrightError as error:
        sys.stderr.write(f"noise: {error}\n")
        return FAULT
    keys = {cell.key for cell in cells}
    trials = [trial for trial in read_trials(out / TRIALS_FILE) if trial.key in keys]
    if not trials:
        sys.stderr.write("noise: no trial was made; give it more --seconds\n")
        return INTERRUPTED if is_interrupted else FAULT
    about: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "environment": environment(),
        "gpus": "".join(f"{gpu.name}, driver {gpu.driver}; " for gpu in find_gpus() if device.has_driver),
        "device": str(device),
        "command": shlex.join(["python", "-m", "lab.benchmarks.noise", *sys.argv[1:]]),
    }
    text = render(trials, about)
    document = about | {
        "stated_share": STATED_SHARE,
        "n_trials": len(trials),
        "left": len(cells) - len(trials),
        "shares": {
            title: [asdict(share) for share in shares(trials, question, is_final=is_final)]
            for (question, is_final), title in TITLES.items()
        },
    }
    (out / "noise.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    (out / "noise.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    if is_interrupted:
        return INTERRUPTED
    return 0 if holds(trials) else 1


if __name__ == "__main__":
    sys.exit(main())

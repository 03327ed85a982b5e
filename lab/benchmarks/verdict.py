"""How long a verdict takes: commands as users call them, sessions as searches use them, and equal kernels.

- *commands*: wall seconds of ``kernelwright evaluate --json`` on small tasks: with a referee of its own
  (``--fresh-referee``), as the first command after there was no warm referee, and as a later one. What the
  evaluation itself takes is split by its stages; the rest is start-up, admission and the end. ``--before``
  names the ``kernelwright`` of another checkout, which is timed beside it.
- *sessions*: wall seconds of ``evaluate`` in an open session of a search: of a candidate that does not lead,
  of one that does and so is replayed, and as a final.
- *equal kernels*: the reference is judged, again and again, in an open session; counted is how often it
  is called faster or slower.

Leave the machine to it: the load during every sample is written down, and ``quiet`` says whether all stayed
below ``QUIET``. Every sample is reported on stderr, and after each of them the result so far is written. The
parts that ``--only`` leaves out stay as an earlier run with the same referee has written them.

Usage: python -m lab.benchmarks.verdict [--only PART] [--repeat 7] [--trials 200]
       [--before PROGRAM] [--out FOLDER]
"""

import argparse
import datetime
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kernelwright.core.candidate import Candidate
from kernelwright.core.intervals import wilson
from kernelwright.core.task import Task
from kernelwright.machine.children import whole_environment
from kernelwright.referee.session.referee import Referee, RefereeSession, RefereeSettings
from kernelwright.targets.cpp.runtime_source import LOADER, cxx_flags
from lab import footer
from lab.benchmarks import RESULTS

STAGES = ("build", "load", "verify", "time", "replay", "waiting")
TARGETS = {"second": 2.0, "first": 4.0, "search": 1.2, "leader": 1.2, "final": 8.0}
"""Seconds, medians on a quiet machine with two cores."""
CALLED_AT_MOST = 0.05
Z = 1.96
"""Of a two-sided interval of 95 %."""
PARTS = COMMANDS, SESSIONS, EQUAL = ("commands", "sessions", "equal")
QUIET = 0.04
"""Largest share of the time in which some thread waited for a processor."""

HEAD = "import torch\nfrom torch import nn\n"
TAIL = "\ndef get_inputs():\n    return [torch.rand(SHAPE)]\n\ndef get_init_inputs():\n    return []\n"
MODEL = """
class Model(nn.Module):
    def forward(self, x):
        return BODY
"""
KERNEL = """
extern "C" void run(const float* x, float* y) {
  #pragma omp parallel for schedule(static)
  for (long i = 0; i < 1 << 20; i++) { float t = x[i] * 2.0f + 1.0f; y[i] = t < 0.0f ? 0.0f : t; }
}
"""


def model(body: str, shape: str) -> str:
    """Return a task's source."""
    return HEAD + MODEL.replace("BODY", body) + TAIL.replace("SHAPE", shape)


def same(source: str) -> str:
    """Return the kernel that is the reference itself."""
    return source.replace("class Model(", "class ModelNew(")


def compiled() -> str:
    """Return a kernel in C++, with its text as literals, as ours are."""
    return f"""
import ctypes, hashlib, os, subprocess, tempfile
from pathlib import Path
import torch
from torch import nn

CPP_SOURCE = r'''{KERNEL}'''
CXX_FLAGS = {cxx_flags()!r}
{LOADER}
_run = _kernel("run", 2)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _run(x.data_ptr(), y.data_ptr())
        return y
"""


SOFTMAX = model("torch.softmax(x, dim=-1)", "64, 256")
CHAIN = model("torch.relu(x * 2 + 1)", "1024, 1024")
CASES = {"softmax": (SOFTMAX, same(SOFTMAX)), "chain in C++": (CHAIN, compiled())}


@dataclass
class Sample:
    """One verdict."""

    case: str
    how: str
    seconds: float
    phases_s: dict[str, float] = field(default_factory=dict)
    waited: float = 0.0
    """Share of the time in which some thread on the machine waited for a processor."""


class Pressure:
    """The share of time in which threads waited for a processor, by the kernel's own account."""

    def __init__(self) -> None:
        self._begin, self._stalled = time.monotonic(), self._read()

    def share(self) -> float:
        """Return the share since the start; 0 where the kernel keeps no account."""
        return (self._read() - self._stalled) / max(time.monotonic() - self._begin, 1e-9) / 1e6

    @staticmethod
    def _read() -> int:
        try:
            some = Path("/proc/pressure/cpu").read_text(encoding="ascii").splitlines()[0]
        except OSError:
            return 0
        return int(some.rpartition("total=")[2])


def command(program: Sequence[str], case: str, how: str, folder: Path) -> Sample:
    """Time one command; exits when its kernel is not verified, for then nothing has been measured."""
    task, kernel = folder / f"{case}_task.py", folder / f"{case}_kernel.py"
    task.write_text(CASES[case][0], encoding="utf-8")
    kernel.write_text(CASES[case][1], encoding="utf-8")
    words = [*program, "evaluate", str(task), str(kernel), "--json"]
    words += ["--fresh-referee"] if how == "fresh" else []
    environment = whole_environment(KERNELWRIGHT_CACHE=str(folder / "cache"))
    pressure, begin = Pressure(), time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    seconds = time.perf_counter() - begin
    if done.returncode:
        sys.exit(f"{case}, {how}: {done.stderr}{done.stdout}")
    return Sample(case, how, seconds, json.loads(done.stdout)["phases_s"], pressure.share())


def commands(repeat: int, before: str | None, folder: Path) -> Iterator[Sample]:
    """Yield the samples of commands; the first of each case makes what is kept, and is no sample."""
    ours = (sys.executable, "-m", "kernelwright")
    for case in CASES:
        command(ours, case, "fresh", folder)
        for _ in range(repeat):
            if before is not None:
                yield command((before,), case, "before", folder)
            yield command(ours, case, "fresh", folder)
            _end_warm(ours, folder)
            yield command(ours, case, "first", folder)
            yield command(ours, case, "second", folder)
    _end_warm(ours, folder)


def _end_warm(program: Sequence[str], folder: Path) -> None:
    environment = whole_environment(KERNELWRIGHT_CACHE=str(folder / "cache"))
    words = [*program, "doctor", "--end-referee", "--json"]
    subprocess.run(words, capture_output=True, check=False, env=environment)


def sessions(repeat: int, folder: Path) -> Iterator[Sample]:
    """Yield the samples of open sessions."""
    for how in ("search", "leader", "final"):
        settings = RefereeSettings(cache_dir=folder / "cache", replays_leaders_only=how == "search")
        with Referee(settings) as referee:
            for case, (task, kernel) in CASES.items():
                with referee.open(Task(name=case, source=task)) as session:
                    session.evaluate(Candidate(source=kernel))  # makes the session's samples
                    yield from _in_session(session, case, how, kernel, repeat)


def _in_session(session: RefereeSession, case: str, how: str, kernel: str, repeat: int) -> Iterator[Sample]:
    """Yield the samples of one kernel; in a search it may lead by chance, and then it is no sample."""
    count = 0
    while count < repeat:
        pressure, begin = Pressure(), time.perf_counter()
        found = session.evaluate(Candidate(source=kernel), final=how == "final")
        seconds = time.perf_counter() - begin
        if how != "search" or found.not_replayed:
            count += 1
            yield Sample(case, how, seconds, dict(found.phases_s), pressure.share())


def equal_kernels(trials: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Judge kernels that are the reference; yield after each how often they were called otherwise."""
    verdicts: list[str] = []
    pressure = Pressure()
    with (
        Referee(RefereeSettings(cache_dir=folder / "cache")) as referee,
        referee.open(Task(name="equal", source=SOFTMAX)) as session,
    ):
        for _ in range(trials):
            found = session.evaluate(Candidate(source=same(SOFTMAX)))
            speedup = found.results[0].speedup("eager") if found.results else None
            verdicts.append(found.status.value if speedup is None else speedup.verdict)
            yield count_called(verdicts) | {"waited": pressure.share()}


def count_called(verdicts: Sequence[str]) -> dict[str, Any]:
    """Return how many of these verdicts on equal kernels are faster or slower, with an interval."""
    called = sum(verdict in ("faster", "slower") for verdict in verdicts)
    low, high = wilson(called, len(verdicts), Z)
    counts = {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))}
    return {"trials": len(verdicts), "called": called, "low": low, "high": high, "verdicts": counts}


def summarise(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return one row a case and way: medians of the seconds, of the stages and of the rest."""
    rows = []
    for case, how in dict.fromkeys((sample.case, sample.how) for sample in samples):
        own = [sample for sample in samples if (sample.case, sample.how) == (case, how)]
        stages = {name: statistics.median(s.phases_s.get(name, 0.0) for s in own) for name in STAGES}
        rest = statistics.median(s.seconds - sum(s.phases_s.values()) for s in own)
        seconds = [sample.seconds for sample in own]
        rows.append(
            {
                "case": case, "how": how, "n": len(own), "median_s": statistics.median(seconds),
                "least_s": min(seconds), "most_s": max(seconds), **stages, "rest": rest,
                "target_s": TARGETS.get(how),
            }
        )  # fmt: skip
    return rows


def render(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    names = (*STAGES, "rest")
    lines = [
        "# How long a verdict takes",
        "",
        f"| task | how | median | range | target | {' | '.join(names)} |",
    ]
    lines.append("|---|---|---:|---:|---:|" + "---:|" * len(names))
    for row in result["rows"]:
        target = "" if row["target_s"] is None else f"{row['target_s']:g} s"
        spread = f"{row['least_s']:.2f} to {row['most_s']:.2f} s"
        parts = " | ".join(f"{row[name]:.2f}" for name in names)
        lines.append(
            f"| {row['case']} | {row['how']} | {row['median_s']:.2f} s | {spread} | {target} | {parts} |"
        )
    equal = result["equal"]
    if equal:
        lines += [
            "",
            f"Equal kernels: {equal['called']} of {equal['trials']} called faster or slower "
            f"(95 % interval {equal['low']:.1%} to {equal['high']:.1%}).",
        ]
    lines += [
        "",
        "*fresh*: a referee of the command's own; *first*: starts the warm referee; *second*: finds it; "
        "*before*: another checkout. In an open session: *search*, a candidate that does not lead; *leader*, "
        "one that is replayed; *final*. Stages and the rest are medians in seconds.",
        "",
        f"Threads waited for a processor during at most {result['waited']:.1%} of a sample: "
        f"{'quiet' if result['is_quiet'] else 'NOT QUIET'}.",
        "",
        footer.footer(result),
        "",
        f"Command: `{result['command']}`",
    ]
    return "\n".join(lines) + "\n"


def holds(result: dict[str, Any]) -> bool:
    """Tell whether all medians are within their targets, and equal kernels are called seldom enough."""
    in_time = all(row["target_s"] is None or row["median_s"] <= row["target_s"] for row in result["rows"])
    return in_time and (not result["equal"] or result["equal"]["low"] <= CALLED_AT_MOST)


def earlier(out: Path, parts: Sequence[str]) -> tuple[list[Sample], dict[str, Any]]:
    """Return what an earlier run has written of the parts that are not measured now."""
    try:
        known = json.loads((out / "verdict.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return [], {}
    of_this_referee = known["environment"].get("referee") == environment()["referee"]
    if set(parts) == set(PARTS) or not of_this_referee:
        return [], {}
    in_session = ("search", "leader", "final")
    samples = [Sample(**sample) for sample in known["samples"]]
    kept = [s for s in samples if (SESSIONS if s.how in in_session else COMMANDS) not in parts]
    return kept, {} if EQUAL in parts else known["equal"]


def result_of(samples: Sequence[Sample], equal: dict[str, Any]) -> dict[str, Any]:
    """Return all that is known so far."""
    waited = max([*(sample.waited for sample in samples), equal.get("waited", 0.0)])
    return {
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python", "-m", "lab.benchmarks.verdict", *sys.argv[1:]]),
        "environment": environment(),
        "waited": waited,
        "is_quiet": waited <= QUIET,
        "rows": summarise(samples),
        "equal": equal,
        "samples": [asdict(sample) for sample in samples],
    }


@cache
def environment() -> dict[str, Any]:
    """Return what the machine is, asked once."""
    return footer.environment()


def write(result: dict[str, Any], out: Path) -> None:
    """Write the result; each file is replaced as a whole."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=2) + "\n"
    for name, content in (("verdict.json", text), ("verdict.md", render(result))):
        part = out / f"{name}.part"
        part.write_text(content, encoding="utf-8")
        part.replace(out / name)


def tell(words: str) -> None:
    """Say on stderr how far it is."""
    sys.stderr.write(f"{datetime.datetime.now():%H:%M:%S} {words}\n")
    sys.stderr.flush()


def main() -> int:
    """Measure, print, write; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description="Seconds to a verdict, and false calls of equal kernels.")
    parser.add_argument("--repeat", type=int, default=7, help="samples of every row")
    parser.add_argument("--trials", type=int, default=200, help="of equal kernels; 0: none")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part; may be repeated")
    parser.add_argument("--before", help="the kernelwright program of another checkout")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    parts = options.only or PARTS
    samples, equal = earlier(options.out, parts)
    with tempfile.TemporaryDirectory(prefix="verdict-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for part, taken in (
            (COMMANDS, commands(options.repeat, options.before, folder)),
            (SESSIONS, sessions(options.repeat, folder)),
        ):
            for sample in taken if part in parts else ():
                samples.append(sample)
                tell(f"{part}: {sample.case}, {sample.how}: {sample.seconds:.2f} s")
                write(result_of(samples, equal), options.out)
        for equal in equal_kernels(options.trials, folder) if EQUAL in parts and options.trials else ():
            tell(f"{EQUAL}: {equal['called']} of {equal['trials']} called, of {options.trials} trials")
            write(result_of(samples, equal), options.out)
    result = result_of(samples, equal)
    write(result, options.out)
    sys.stdout.write(render(result))
    return 0 if holds(result) else 1


if __name__ == "__main__":
    sys.exit(main())

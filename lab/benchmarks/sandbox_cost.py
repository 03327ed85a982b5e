"""What confinement costs: the same kernel judged in every sandbox that this machine has.

One referee per tier is kept warm, each with an open session of the same task. The tiers take turns in random
order, round by round, so that whatever else the machine does meets all of them alike. Per round and tier:

- *worker start*: until a fresh worker has answered its first command, and until it is gone again;
- *evaluation*: wall time of ``Session.evaluate`` on a kernel that was compiled before;
- *build*: the stage ``build`` of a kernel with new source;
- *latency*: what the referee measures for the kernel, and the ratio of the reference to it. Both must be the
  same in every tier: a sandbox that slows one side down would bias every verdict.

``none`` is *without*: process groups and rlimits, as any harness has. Differences are paired with it round by
round; their interval is a bootstrap of the median.

Usage: python -m lab.benchmarks.sandbox_cost [--rounds 15] [--starts 5] [--out benchmarks/results]
"""

import argparse
import contextlib
import datetime
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.core.candidate import Candidate
from kernelwright.core.task import Task
from kernelwright.referee.sandbox import BARE, Tier
from kernelwright.referee.session.referee import Referee, RefereeSession, RefereeSettings
from kernelwright.targets.cpp.runtime_source import LOADER, cxx_flags
from lab.benchmarks import RESULTS
from lab.footer import environment, footer

COMPARED = (BARE, Tier.LANDLOCK, Tier.BUBBLEWRAP, Tier.NAMESPACES)
N = 1 << 16
"""Elements: small enough for the cost of a system call to be seen in a latency, if there were any."""
WORKER_BYTES = 16 << 30
RESAMPLES = 2000

REFERENCE = f"""
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1

def get_inputs():
    return [torch.rand({N})]

def get_init_inputs():
    return []
"""
MEASURES = {
    "start_ms": "worker start",
    "end_ms": "worker end",
    "evaluation_ms": "evaluation, library cached",
    "build_ms": "build of new source",
    "latency_ms": "kernel's latency",
    "speedup": "speedup over eager",
}


def kernel_source(constant: int) -> str:
    """Return a candidate with C++ of its own; another constant is another library."""
    return f"""
import ctypes, hashlib, os, shlex, shutil, subprocess, tempfile
from pathlib import Path
import torch
from torch import nn

CPP_SOURCE = r'''
extern "C" void run(const float* x, float* y) {{  // {constant}
  #pragma omp parallel for schedule(static)
  for (long i = 0; i < {N}; i++) y[i] = (x[i] < 0.0f ? 0.0f : x[i]) * 2.0f + 1.0f;
}}'''
CXX_FLAGS = {cxx_flags()!r}
{LOADER}
_run = _kernel("run", 2)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _run(x.data_ptr(), y.data_ptr())
        return y
"""


def start_and_end(referee: Referee) -> dict[str, float]:
    """Time one worker's way into the world and out of it."""
    begin = time.perf_counter()
    child = referee._launcher.spawn_worker(WORKER_BYTES)
    child.call("map", 60.0)
    started = time.perf_counter()
    child.kill()
    return {"start_ms": (started - begin) * 1e3, "end_ms": (time.perf_counter() - started) * 1e3}


def judge(session: RefereeSession, source: str) -> dict[str, float]:
    """Evaluate once; exits when the candidate is not verified, for then nothing has been measured."""
    begin = time.perf_counter()
    evaluation = session.evaluate(Candidate(source=source))
    seconds = time.perf_counter() - begin
    if not evaluation.is_verified:
        sys.exit(f"not verified: {evaluation.status}: {evaluation.detail}\n{evaluation.log}")
    speedup = evaluation.results[0].speedup("eager")
    assert speedup is not None
    return {
        "evaluation_ms": seconds * 1e3,
        "build_ms": evaluation.phases_s["build"] * 1e3,
        "latency_ms": evaluation.results[0].candidate.median_ms,
        "speedup": speedup.ratio,
    }


def one_turn(referee: Referee, session: RefereeSession, starts: int, constant: int) -> dict[str, float]:
    """Return one row of figures of one tier."""
    workers = [start_and_end(referee) for _ in range(starts)]
    row = {name: statistics.median(worker[name] for worker in workers) for name in ("start_ms", "end_ms")}
    row |= {"build_ms": judge(session, kernel_source(constant))["build_ms"]}
    return judge(session, kernel_source(0)) | row


def measure(rounds: int, starts: int) -> dict[str, list[dict[str, float]]]:
    """Return tier -> one row per round."""
    with contextlib.ExitStack() as stack:
        sessions: dict[str, tuple[Referee, RefereeSession]] = {}
        for tier in COMPARED:
            cache = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandbox-cost-")))
            referee = stack.enter_context(Referee(RefereeSettings(cache_dir=cache, sandbox=tier)))
            if tier != BARE and referee.tier is not tier:
                sys.stderr.write(f"{tier} cannot be had here\n")
                continue
            sessions[tier] = referee, stack.enter_context(referee.open(Task(name="relu", source=REFERENCE)))
            one_turn(*sessions[tier], 1, 0)  # makes the session's draws and the library
        rows: dict[str, list[dict[str, float]]] = {tier: [] for tier in sessions}
        for i in range(rounds):
            for tier in random.sample(list(sessions), len(sessions)):
                rows[tier].append(one_turn(*sessions[tier], starts, i + 1))
            sys.stderr.write(f"round {i + 1} of {rounds}\n")
    return rows


def summarise(rows: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return measure -> tier -> median, and the paired difference from ``limits`` with its interval."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in MEASURES:
        found[name] = {}
        for tier, own in rows.items():
            differences = [a[name] - b[name] for a, b in zip(own, rows[BARE], strict=True)]
            low, high = interval(differences)
            found[name][tier] = {
                "median": statistics.median(row[name] for row in own),
                "more": statistics.median(differences),
                "low": low,
                "high": high,
            }
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the median."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]


def render(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    tiers = list(result["rows"])
    stronger = [tier for tier in tiers if tier != BARE]
    lines = ["# What the sandbox costs", ""]
    head = [f"median of {result['rounds']}", *tiers, *(f"{tier} over {BARE}" for tier in stronger)]
    lines += ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for name, title in MEASURES.items():
        cells = [_figure(name, result["summary"][name][tier]["median"]) for tier in tiers]
        for tier in stronger:
            more = result["summary"][name][tier]
            cells.append(f"{more['more']:+.3g} ({more['low']:+.3g} to {more['high']:+.3g})")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "Differences are paired round by round, with the 95 % interval of their median. `none` is what any",
        f"harness has. `relu(x) * 2 + 1` over {N} float32, warm referee; times in ms.",
        "",
        f"{result['environment']['kernel']}. {footer(result)}",
        "",
        f"Command: `{result['command']}`",
    ]
    return "\n".join(lines) + "\n"


def _figure(name: str, value: float) -> str:
    return f"{value:.2f}x" if name == "speedup" else f"{value:.3g} ms"


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="Cost per evaluation and per worker in every sandbox.")
    parser.add_argument("--rounds", type=int, default=15, help="turns of every tier")
    parser.add_argument("--starts", type=int, default=5, help="workers started per turn")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = measure(options.rounds, options.starts)
    result = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m lab.benchmarks.sandbox_cost --rounds {options.rounds} "
        f"--starts {options.starts}",
        "environment": environment(),
        "rounds": options.rounds,
        "summary": summarise(rows),
        "rows": rows,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "sandbox_cost.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    text = render(result)
    (options.out / "sandbox_cost.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

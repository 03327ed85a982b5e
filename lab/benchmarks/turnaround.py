"""From source to verdict: our build path beside ``torch.utils.cpp_extension.load_inline``.

The same fused kernel, ``relu(x + bias) * scale`` over two million float32, goes to one open session of the
referee in two dresses: as plain C ABI that the referee compiles and the candidate loads with ctypes, and as
a torch extension that the candidate compiles when it is imported. Pairs alternate; every repetition has
another block size in its source and all caches start empty, so that nothing is found compiled.

*Build and load* is the time of the referee's stages ``build`` and ``load``, *verdict* the wall time of
``Session.evaluate`` with its verification and its timing against eager.

Usage: python -m lab.benchmarks.turnaround [--pairs 3] [--out benchmarks/results]
"""

import argparse
import datetime
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.task import Task
from kernelwright.referee.session.referee import Referee, RefereeSession, RefereeSettings
from kernelwright.targets.cpp.runtime_source import LOADER, cxx_flags
from lab.benchmarks import RESULTS
from lab.footer import environment, footer

ROWS, COLUMNS = 2048, 1024
NEEDED = {"build_load_s": 20.0, "verdict_s": 5.0}
"""Measure -> how many times faster ours has to be."""
TITLES = {"build_load_s": "build and load", "verdict_s": "source to verdict"}

MODEL = f"""
class NAME(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros({COLUMNS}))

    def forward(self, x):
        return BODY
"""
REFERENCE = f"""
import torch
from torch import nn

{MODEL.replace("NAME", "Model").replace("BODY", "torch.relu(x + self.bias) * 1.7")}

def get_inputs():
    return [torch.randn({ROWS}, {COLUMNS})]

def get_init_inputs():
    return []
"""
KERNEL = f"""
static void fused(const float* x, const float* bias, float* y) {{
  #pragma omp parallel for schedule(static)
  for (long begin = 0; begin < {ROWS}; begin += BLOCK) {{
    long end = begin + BLOCK < {ROWS} ? begin + BLOCK : {ROWS};
    for (long i = begin; i < end; i++)
      for (long j = 0; j < {COLUMNS}; j++) {{
        float t = x[i * {COLUMNS} + j] + bias[j];
        y[i * {COLUMNS} + j] = (t < 0.0f ? 0.0f : t) * 1.7f;
      }}
  }}
}}
"""
PLAIN_ENTRY = 'extern "C" void run(const float* x, const float* b, float* y) { fused(x, b, y); }\n'
TORCH_ENTRY = """
torch::Tensor run(torch::Tensor x, torch::Tensor b) {
  auto y = torch::empty_like(x);
  fused(x.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>());
  return y;
}
"""


def plain_source(block: int) -> str:
    """Return the candidate as ours are: C ABI, loaded by the code that every candidate carries."""
    body = "_run(x, self.bias)"
    return f"""
import ctypes, hashlib, os, shlex, shutil, subprocess, tempfile
from pathlib import Path
import torch
from torch import nn

CPP_SOURCE = r'''{KERNEL.replace("BLOCK", str(block))}{PLAIN_ENTRY}'''
CXX_FLAGS = {cxx_flags()!r}
{LOADER}
_fused = _kernel("run", 3)

def _run(x, bias):
    y = torch.empty_like(x)
    _fused(x.data_ptr(), bias.data_ptr(), y.data_ptr())
    return y

{MODEL.replace("NAME", "ModelNew").replace("BODY", body)}"""


def extension_source(block: int) -> str:
    """Return the same kernel as a torch extension."""
    return f"""
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

_extension = load_inline(
    name="fused_{block}",
    cpp_sources=r'''{KERNEL.replace("BLOCK", str(block))}{TORCH_ENTRY}''',
    functions=["run"],
    extra_cflags={list(cxx_flags())!r},
    extra_ldflags=["-fopenmp"],
)

{MODEL.replace("NAME", "ModelNew").replace("BODY", "_extension.run(x, self.bias)")}"""


SOURCES = {"ours": plain_source, "load_inline": extension_source}


def measure(pairs: int) -> dict[str, list[dict[str, float]]]:
    """Return side -> one row of seconds per repetition."""
    rows: dict[str, list[dict[str, float]]] = {side: [] for side in SOURCES}
    with (
        tempfile.TemporaryDirectory(prefix="turnaround-") as cache,
        Referee(RefereeSettings(cache_dir=Path(cache))) as referee,
        referee.open(Task(name="fused_pointwise", source=REFERENCE)) as session,
    ):
        judge(session, REFERENCE.replace("class Model(", "class ModelNew("))  # makes the session's draws
        for block in random.sample(range(8, 512), pairs):
            for side, source in SOURCES.items():
                rows[side].append(judge(session, source(block)))
    return rows


def judge(session: RefereeSession, source: str) -> dict[str, float]:
    """Evaluate once; exits when the candidate is not verified, for then nothing has been measured."""
    begin = time.perf_counter()
    evaluation: Evaluation = session.evaluate(Candidate(source=source))
    verdict_s = time.perf_counter() - begin
    if not evaluation.is_verified:
        sys.exit(f"not verified: {evaluation.status}: {evaluation.detail}\n{evaluation.log}")
    phases = evaluation.phases_s
    return {
        "build_load_s": phases["build"] + phases["load"],
        "verdict_s": verdict_s,
        **{f"{name}_s": seconds for name, seconds in phases.items()},
        "latency_ms": evaluation.results[0].candidate.median_ms,
    }


def summarise(rows: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return measure -> medians of both sides, their ratio and what the ratio has to be."""
    found = {}
    for name, needed in NEEDED.items():
        ours, theirs = (statistics.median(row[name] for row in rows[side]) for side in SOURCES)
        found[name] = {"ours": ours, "load_inline": theirs, "ratio": theirs / ours, "needed": needed}
    return found


def render(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    lines = ["# From source to verdict", "", "| median of " + str(result["pairs"]) + " | ours | load_inline "]
    lines[-1] += "| ratio | needed |"
    lines.append("|---|---:|---:|---:|---:|")
    for name, row in result["summary"].items():
        lines.append(
            f"| {TITLES[name]} | {row['ours']:.3f} s | {row['load_inline']:.3f} s "
            f"| {row['ratio']:.1f}x | {row['needed']:.0f}x |"
        )
    lines += ["", "| stage | ours | load_inline |", "|---|---:|---:|"]
    for stage in ("build", "load", "verify", "time"):
        ours, theirs = (statistics.median(row[f"{stage}_s"] for row in result["rows"][s]) for s in SOURCES)
        lines.append(f"| {stage} | {ours:.3f} s | {theirs:.3f} s |")
    lines += [
        "",
        f"`relu(x + bias) * scale` over {ROWS} x {COLUMNS} float32; new source each time, caches empty,",
        "session warm. `load_inline` compiles when the candidate is imported, so its build is in `load`.",
        "",
        footer(result),
        "",
        f"Command: `{result['command']}`",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, print, write; exit code 1 when a ratio is below what it has to be."""
    parser = argparse.ArgumentParser(description="Build-to-verdict time beside load_inline.")
    parser.add_argument("--pairs", type=int, default=3, help="alternating repetitions")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    # ninja may live beside the interpreter of an environment that is not activated
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    rows = measure(options.pairs)
    result = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m lab.benchmarks.turnaround --pairs {options.pairs}",
        "environment": environment(),
        "pairs": options.pairs,
        "elements": ROWS * COLUMNS,
        "summary": summarise(rows),
        "rows": rows,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "turnaround.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    text = render(result)
    (options.out / "turnaround.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0 if all(row["ratio"] >= row["needed"] for row in result["summary"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())

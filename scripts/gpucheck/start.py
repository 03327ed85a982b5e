"""Run by itself: is everything there that the other parts stand on? What is not has a name within seconds.

``python -m gpucheck.start OUT DEVICE LANGUAGE`` writes ``OUT/start/start.json`` after every step. Exit code
0: all is well; 1: a kernel that is right got another verdict; 3: none can be had here, ``fault`` says why.
"""

import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpucheck.results import write_atomically
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import KernelwrightError
from kernelwright.core.evaluation import Evaluation
from kernelwright.corpus.load import honest_twin, load_corpus_task
from kernelwright.machine.probe import measure_peaks
from kernelwright.referee.sandbox.tiers import BARE
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings
from kernelwright.settings import load_settings

TASK = "pointwise"
TRITON = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scaled_relu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.where(value < 0, 0.0, value) * 2 + 1, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        scaled_relu[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
"""
"""Right for the task, in the plainest Triton there is."""
FAULTY = 3


class Report:
    """What is known so far, on disk after every step."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.found: dict[str, Any] = {"steps": [], "fault": ""}
        self._begin = time.monotonic()

    def step(self, name: str, detail: str, *, ok: bool = True) -> None:
        """Add a step that has ended."""
        seconds, self._begin = time.monotonic() - self._begin, time.monotonic()
        self.found["steps"].append({"name": name, "ok": ok, "detail": detail, "seconds": round(seconds, 1)})
        sys.stderr.write(f"{name}: {detail} ({seconds:.1f} s)\n")
        self.save()

    def fault(self, name: str, error: Exception) -> int:
        """Say that nothing can be judged here."""
        self.found["fault"] = f"{name}: {' '.join(str(error).split()) or type(error).__name__}"
        self.step(name, str(error).partition("\n")[0], ok=False)
        return FAULTY

    def save(self) -> None:
        """Write it down."""
        write_atomically(self._file, json.dumps(self.found, indent=2) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Go through the steps."""
    out, device, language = list(sys.argv[1:] if arguments is None else arguments)
    report = Report(Path(out) / "start" / "start.json")
    with tempfile.TemporaryDirectory() as builds:
        try:
            settings = RefereeSettings(cache_dir=Path(builds), device=device)
            code = _judge(settings, language, report)
        except KernelwrightError as error:
            code = report.fault(f"device {device}", error)
            _unconfined(RefereeSettings(cache_dir=Path(builds), device=device), report)
    try:
        peaks = measure_peaks(load_settings().cache_dir)
        report.step("compiler and peaks of the processor", f"{peaks.fma_gflops:.0f} GFLOP/s")
    except KernelwrightError as error:
        code = report.fault("compiler", error)
    return code


def _judge(settings: RefereeSettings, language: str, report: Report) -> int:
    """Open the referee on the device and judge what is right."""
    task = load_corpus_task(TASK)
    with Referee(settings) as referee:
        sandbox = referee.sandbox
        why = "".join(f"; not {name}: {words}" for name, words in sandbox.why_not.items())
        report.found["tier"] = sandbox.tier.value
        report.step("sandbox", f"{sandbox.tier.value} ({', '.join(sandbox.layers)}){why}")
        with referee.open(task) as session:
            eager = ", ".join(f"{ms:.4f} ms" for ms in session.baseline_ms.values())
            report.step("task admitted on the device", f"eager {eager}")
            kernels = {"torch": honest_twin(task), **({"triton": TRITON} if language == "triton" else {})}
            verdicts = []
            for name, source in kernels.items():
                verdict = session.evaluate(Candidate(source=source))
                verdicts.append(verdict.is_verified)
                report.step(f"a right kernel of {name}'s", _words(verdict), ok=verdict.is_verified)
    return 0 if all(verdicts) else 1


def _words(evaluation: Evaluation) -> str:
    """Return the verdict, and where its seconds went."""
    spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in evaluation.phases_s.items())
    if evaluation.is_verified:
        return f"verified, {evaluation.geomean_speedup():.2f}x eager; {spent}"
    log = evaluation.log.strip().rpartition("\n")[2]
    more = f"; its log ends: {log}" if log else ""
    return f"{evaluation.status} by {evaluation.check} ({evaluation.detail}){more}; {spent}"


def _unconfined(settings: RefereeSettings, report: Report) -> None:
    """Where the device is not to be had: is it for the sandbox, or for the machine?"""
    try:
        with Referee(dataclasses.replace(settings, sandbox=BARE)) as referee:
            referee.open(load_corpus_task(TASK)).close()
        report.step("the same without a sandbox", "to be had")
    except KernelwrightError as error:
        report.step("the same without a sandbox", str(error).partition("\n")[0], ok=False)


if __name__ == "__main__":
    raise SystemExit(main())

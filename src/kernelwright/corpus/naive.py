"""A harness that does not look: the protocol that the cheats were made against.

Reference and candidate in one process and one namespace, public seeds, five comparisons with an absolute
tolerance, then the mean of many calls on the same inputs, whose outputs nobody looks at. The baseline is the
one stored before or the one taken after, whichever is better for the candidate: harnesses use either. It
exists to show that the specimens do what they say: ``kernelwright audit --naive`` runs each here as well.
Nothing is judged by it.

Run as ``python -m kernelwright.corpus.naive TASK SPECIMEN``; prints one JSON object.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kernelwright.core.frozen import Frozen
from kernelwright.corpus.load import FOLDERS, HERE
from kernelwright.corpus.specimen import Specimen
from kernelwright.machine.children import whole_environment
from kernelwright.targets.base import BuildSite
from kernelwright.targets.registry import build_candidate

SEED = 42
N_TRIALS = 5
N_WARM_UP, N_TIMED = 3, 30
TOLERANCE = 1e-4
TIMEOUT_S = 120.0
FOLDERS_OF_A_PATH = re.compile(r"(?:/[\w.-]+)+/")
"""They are of one machine, and no words for a page."""


class NaiveVerdict(Frozen):
    """What such a harness says of a specimen."""

    accepted: bool
    speedup: float | None = None
    detail: str = ""

    @property
    def words(self) -> str:
        """Accepted or not, and how fast, in a few words."""
        if not self.accepted:
            return f"not accepted ({FOLDERS_OF_A_PATH.sub('', self.detail)[:60]})"
        return "accepted" + (f", {self.speedup:.3g}x" if self.speedup is not None else "")


def ask(specimen: Specimen, cache_dir: Path) -> NaiveVerdict:
    """Run a specimen through the naive harness, in a process group of its own, unconfined."""
    library = build_candidate(specimen.source, BuildSite(cache_dir, TIMEOUT_S)).library
    builds = cache_dir.resolve() if library is None else library.resolve().parent
    command = [
        sys.executable, "-m", "kernelwright.corpus.naive",
        str(HERE / "tasks" / f"{specimen.task}.py"), str(FOLDERS[specimen.kind] / f"{specimen.name}.py"),
    ]  # fmt: skip
    environment = whole_environment(KERNELWRIGHT_BUILD_CACHE=str(builds))
    for _ in range(specimen.attempts - 1):
        _run(command, environment)
    return _run(command, environment)


def _run(command: list[str], environment: dict[str, str]) -> NaiveVerdict:
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
        # files, not pipes: orphans of the specimen would hold a pipe open
        process = subprocess.Popen(
            command, stdout=said, stderr=complained, env=environment, start_new_session=True
        )
        try:
            process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return NaiveVerdict(accepted=False, detail=f"no end within {TIMEOUT_S:.0f} s")
        finally:
            _end(process)
        said.seek(0)
        complained.seek(0)
        out, errors = said.read(), complained.read()
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if not lines:
        return NaiveVerdict(accepted=False, detail=(errors.strip().splitlines() or ["no answer"])[-1])
    return NaiveVerdict.model_validate_json(lines[-1])


def _end(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def mean_seconds(samples: list[float]) -> float:
    """Return the mean, which is what such a harness scores."""
    return sum(samples) / len(samples)


def judge(task_file: Path, specimen_file: Path) -> dict[str, Any]:
    """Judge as KernelBench at 423217d does, on the CPU."""
    import torch  # lazy: nothing else here needs it

    context: dict[str, Any] = {}
    exec(compile(task_file.read_text(encoding="utf-8"), str(task_file), "exec"), context)
    torch.manual_seed(SEED)
    reference = context["Model"](*context["get_init_inputs"]())
    if context.get("MODE") == "eval":
        reference.eval()
    stored = _baseline(reference, context["get_inputs"])
    exec(compile(specimen_file.read_text(encoding="utf-8"), str(specimen_file), "exec"), context)
    torch.manual_seed(SEED)
    candidate = context["ModelNew"](*context["get_init_inputs"]())
    if context.get("MODE") == "eval":
        candidate.eval()
    torch.manual_seed(SEED)
    seeds = [int(torch.randint(0, 2**32 - 1, (1,))) for _ in range(N_TRIALS)]
    with torch.no_grad():
        for trial, seed in enumerate(seeds):
            torch.manual_seed(seed)
            inputs = context["get_inputs"]()
            output = reference(*inputs)
            result = candidate(*inputs)
            if output.shape != result.shape:
                return {"accepted": False, "detail": f"trial {trial}: shape"}
            if not torch.allclose(output, result, atol=TOLERANCE, rtol=TOLERANCE):
                return {"accepted": False, "detail": f"trial {trial}: mismatch"}
        torch.manual_seed(SEED)
        inputs = context["get_inputs"]()
        mine, theirs = _time(candidate, inputs), _time(reference, inputs)
    return {"accepted": True, "speedup": max(stored, theirs) / mine if mine else None}


def _baseline(reference: Any, get_inputs: Any) -> float:
    """Time the reference before the candidate comes, as stored baselines were."""
    import torch  # lazy: nothing else here needs it

    torch.manual_seed(SEED)
    with torch.no_grad():
        return _time(reference, get_inputs())


def _time(module: Any, inputs: list[Any]) -> float:
    for _ in range(N_WARM_UP):
        module(*inputs)
    samples = []
    for _ in range(N_TIMED):
        begin = time.perf_counter()
        module(*inputs)
        samples.append(time.perf_counter() - begin)
    return mean_seconds(samples)


if __name__ == "__main__":
    verdict = judge(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.write("\n" + json.dumps(verdict) + "\n")
    sys.stdout.flush()
    os._exit(0)

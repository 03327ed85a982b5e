"""The confined process that builds and times points: ``python -m kernelwright.referee.point_worker``.

Its arguments are a descriptor and a number of threads. It reads one request a line from stdin and writes one
answer a line to the descriptor. It runs candidates, so nothing that it says is trusted: its figures choose
which candidate the referee is asked about.
"""

import json
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernelwright.targets.base import BuildSite
from kernelwright.targets.registry import build_candidate

BUILD_S = 60.0
SAMPLE_S = 0.004
"""A sample repeats a call until it has taken about so long."""
MOST_CALLS = 1000
LOOSE = 2e-2
"""Relative error above which a point is wrong without a doubt."""


class PointWorker:
    """The reference, its inputs, and the points that have been loaded."""

    def __init__(self, task: str, is_eval: bool, threads: int) -> None:
        self.threads = threads
        namespace = _module("task", task)
        torch.manual_seed(0)
        self.arguments = namespace.get_init_inputs()
        self.model = namespace.Model(*self.arguments)
        torch.manual_seed(1)
        self.inputs = namespace.get_inputs()
        self.is_eval = is_eval
        if is_eval:
            self.model.eval()
        with torch.no_grad():
            self.expected = self.model(*self.inputs)
        self.points: dict[int, Any] = {}
        self.calls: dict[int, int] = {}

    def load(self, sources: dict[str, str]) -> dict[str, str | None]:
        """Build and load points; return what is wrong with each, None where nothing is."""
        site = BuildSite(Path.cwd() / "build", BUILD_S)
        with ThreadPoolExecutor(self.threads) as pool:
            results = pool.map(lambda source: build_candidate(source, site), sources.values())
            built = dict(zip(sources, results, strict=True))
        for result in built.values():
            if result.library is not None:
                os.environ["KERNELWRIGHT_BUILD_CACHE"] = str(result.library.parent)
        return {
            name: built[name].error or self._loaded(int(name), source) for name, source in sources.items()
        }

    def _loaded(self, number: int, source: str) -> str | None:
        try:
            torch.manual_seed(0)
            model = _module(f"point_{number}", source).ModelNew(*self.arguments)
            model.load_state_dict(self.model.state_dict(), strict=False)
            if self.is_eval:
                model.eval()
            started = time.perf_counter()
            with torch.no_grad():
                given = model(*self.inputs)
            seconds = time.perf_counter() - started
            torch.testing.assert_close(given, self.expected, rtol=LOOSE, atol=LOOSE, equal_nan=True)
        except Exception as error:  # whatever a candidate raises is its own affair
            return f"{type(error).__name__}: {error}"[:300]
        self.points[number] = model
        self.calls[number] = max(1, min(MOST_CALLS, round(SAMPLE_S / max(seconds, 1e-7))))
        return None

    def time(self, numbers: list[int], rounds: int) -> dict[str, list[float]]:
        """Return milliseconds of a call of each point, turn by turn, in an order drawn anew for each turn."""
        rng = random.Random(len(numbers))
        found: dict[str, list[float]] = {str(number): [] for number in numbers}
        for _ in range(rounds):
            for number in rng.sample(numbers, len(numbers)):
                found[str(number)].append(self._sample(number))
        return found

    def _sample(self, number: int) -> float:
        model, calls = self.points[number], self.calls[number]
        with torch.no_grad():
            model(*self.inputs)
            started = time.perf_counter()
            for _ in range(calls):
                model(*self.inputs)
        taken = time.perf_counter() - started
        self.calls[number] = max(1, min(MOST_CALLS, round(calls * SAMPLE_S / max(taken, 1e-9))))
        return taken / calls * 1e3


def _module(name: str, source: str) -> ModuleType:
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, f"<{name}>", "exec"), module.__dict__)
    return module


def main() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    torch.set_num_threads(int(sys.argv[2]))
    worker: PointWorker | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "open":
                worker = PointWorker(request["task"], request["is_eval"], int(sys.argv[2]))
                answer: Any = True
            elif worker is not None and request["op"] == "load":
                answer = worker.load(request["sources"])
            elif worker is not None:
                answer = worker.time(request["points"], request["rounds"])
            answers.write(json.dumps({"answer": answer}) + "\n")
        except Exception as error:  # the parent decides what it means
            answers.write(json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}) + "\n")


if __name__ == "__main__":
    main()

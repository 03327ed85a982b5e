"""The confined process that builds and times points: ``python -m kernelwright.referee.point_worker``.

Its arguments are a descriptor, a number of threads and, as JSON, where tensors live (``Device.placing``). It
reads one request a line from stdin and writes one answer a line to the descriptor. It runs candidates, so
nothing that it says is trusted: its figures choose which candidate the referee is asked about.
"""

import json
import linecache
import math
import os
import random
import sys
import time
from base64 import b64decode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernelwright.machine.built_elsewhere import put_into_cache
from kernelwright.referee.device import DeviceFacts, n_lanes
from kernelwright.referee.own_draws import OwnDraws
from kernelwright.referee.worker.placement import Placement, place, use_tf32
from kernelwright.referee.wrong_elements import compare_output, rms
from kernelwright.targets.base import BuildResult, BuildSite
from kernelwright.targets.registry import build_candidate

BUILDS = Path("build")
BUILD_S = 60.0
BUILD_SHARE, BUILD_FACTOR, LEAST_BUILD_S = 0.2, 12.0, 2.0
"""To build, a point may take this share of the seconds that a run has left, and so many times as long as the
defaults took, whichever is less, but in any case so many seconds: unrolled code takes a compiler long, and
all points of a generation wait for the last one."""
SAMPLE_S = 0.004
"""A sample repeats a call until it has taken about so long."""
WARM_BELOW_S = 0.001
"""Calls shorter than this are made once more before a sample: what ran before has used the caches."""
MOST_CALLS = 1000
SLOW, HOPELESS = 2.0, 6.0
"""A first call so many times as long as the default's is made again, the shorter one counts; from the second
figure on it is not, since nothing that disturbs one call makes up for so much."""
GPU_CALLS = 3
"""Calls of which the shortest counts there, where one takes microseconds."""
LOOSE = 2e-2
"""Relative error above which a point is wrong without a doubt."""
COMPARED = 1 << 16
"""Elements of an output that are compared, spread over all of it: the referee looks at every one."""


class PointWorker:
    """The reference, its inputs, and the points that have been loaded."""

    def __init__(
        self,
        task: str,
        is_eval: bool,
        threads: int,
        placement: Placement | None = None,
        facts: DeviceFacts | None = None,
    ) -> None:
        """``placement``: None: the processor; ``facts`` are those of its device."""
        placement, facts = placement or Placement(), facts or DeviceFacts()
        self.threads, self.placement, self.architecture = threads, placement, facts.architecture
        namespace = _module("task", task)
        torch.manual_seed(0)
        self.arguments = namespace.get_init_inputs()
        self.model = placement.module(namespace.Model(*self.arguments))
        torch.manual_seed(1)
        self.draw = namespace.get_inputs
        self.inputs = _mapped(self.draw(), lambda tensor: tensor.to(placement.device))
        n_copies = n_lanes(_n_bytes(self.inputs), 1, facts.cache_bytes, facts.free_bytes or 0)
        self.lanes = [self.inputs, *(_mapped(self.inputs, torch.clone) for _ in range(n_copies - 1))]
        """The same inputs at so many places that a device's caches hold none of them when its turn comes."""
        self.is_eval = is_eval
        if is_eval:
            self.model.eval()
        with torch.no_grad():
            self.expected = self.model(*self.inputs)
        self.libraries: dict[str, Path | None] = {}
        """Source -> what was built of it."""
        self.points: dict[int, Any] = {}
        self.calls: dict[int, int] = {}
        self.default_build_s: float | None = None
        """Seconds that the first points took to build; None before them, and where others built them."""
        self.has_taken = False

    def take(self, files: dict[str, str]) -> bool:
        """Keep what another machine has built, base64 by name, so that it is not built again."""
        put_into_cache(BUILDS, {name: b64decode(data) for name, data in files.items()})
        self.has_taken = True
        return True

    def build(self, sources: dict[str, str], limit_s: float, keep: list[int]) -> dict[str, str | None]:
        """Build points on all threads; return what is wrong with each, and none that there was no time for.

        ``limit_s`` is what the run has left; the first points, its defaults, may take all of it. All points
        that were loaded are given up but for those to keep.
        """
        self.points = {number: model for number, model in self.points.items() if number in keep}
        started = time.perf_counter()
        patience_s = build_patience_s(limit_s, self.default_build_s)

        def built(source: str) -> BuildResult | None:
            left_s = limit_s - (time.perf_counter() - started)
            if left_s <= 0:
                return None
            site = BuildSite(
                BUILDS.absolute(), min(left_s, patience_s),
                architecture=self.architecture, is_reported=False, is_in_parts=True,
            )  # fmt: skip
            result = build_candidate(source, site)
            return None if result.is_late and left_s < patience_s else result

        with ThreadPoolExecutor(self.threads) as pool:
            results = dict(zip(sources, pool.map(built, sources.values()), strict=True))
        if self.default_build_s is None and not self.has_taken:
            self.default_build_s = time.perf_counter() - started
        begun = {name: result for name, result in results.items() if result is not None}
        self.libraries |= {sources[name]: r.library for name, r in begun.items() if r.error is None}
        return {name: result.error for name, result in begun.items()}

    def call(self, number: int, source: str, base: int) -> dict[str, Any]:
        """Load a point that was built, and call it once; return what is wrong or its time over the base's.

        ``seconds`` are those of its very first call.
        """
        try:
            model = self._loaded(number, source)
            seconds = first_s = self._once(model, is_compared=True)
            if self.placement.is_on_gpu:  # its first call may have compiled it
                seconds = min(self._once(model) for _ in range(GPU_CALLS))
            against = self._once(self.points[base]) if base in self.points else seconds
            if SLOW * against < seconds < HOPELESS * against:
                seconds = min(seconds, self._once(model))
                against = max(against, self._once(self.points[base]))
        except Exception as error:  # whatever a candidate raises is its own affair
            self._end_if_lost(error)
            return {"why": f"{type(error).__name__}: {error}"[:300]}
        self.points[number] = model
        self.calls[number] = max(1, min(MOST_CALLS, round(SAMPLE_S / max(seconds, 1e-7))))
        return {"ratio": seconds / max(against, 1e-9), "seconds": first_s}

    def _end_if_lost(self, error: Exception) -> None:
        """End the process where a device serves it no more, for which the next points are not to blame."""
        try:
            self.placement.synchronise()
        except Exception:
            sys.stderr.write(f"{type(error).__name__}: {error}".partition("\n")[0][:300] + "\n")
            sys.stderr.flush()
            os._exit(1)

    def _loaded(self, number: int, source: str) -> Any:
        if source not in self.libraries:  # another process built it
            self.build({str(number): source}, BUILD_S / BUILD_SHARE, list(self.points))
        library = self.libraries.pop(source)
        if library is not None:  # alone in its folder, where the point looks for it
            os.environ["KERNELWRIGHT_BUILD_CACHE"] = str(library.parent)
        torch.manual_seed(0)
        model = self.placement.module(_module(f"point_{number}", source).ModelNew(*self.arguments))
        self._give_state(model)
        if self.is_eval:
            model.eval()
        return model

    def compare(self, source: str, draws: list[dict[str, Any]], limit_s: float) -> dict[str, Any]:
        """Return how a candidate's outputs differ on the first draw that shows wrong ones.

        No draw is begun that there is no time for.
        """
        started = time.perf_counter()
        model = self._loaded(0, source)
        own = OwnDraws(self.model, self.draw, self.placement.device)
        labels: list[str] = []
        scales: list[float] = []
        for number, draw in enumerate(draws):
            taken_s = time.perf_counter() - started
            if number and taken_s * (number + 1) / number > limit_s:
                break
            allowed, is_by_row, label = draw.pop("allowed"), draw.pop("is_by_row"), draw.pop("label")
            pair = own.outputs(model, **draw)
            if pair is None:
                continue
            labels.append(label)
            given, expected = pair
            scales = scales or [rms(one) for one in expected]
            found = [
                {
                    "family": label,
                    "output": n,
                    **compare_output(one, other, allowed, is_by_row=is_by_row, least_scale=scale),
                }
                for n, (one, other, scale) in enumerate(zip(given, expected, scales, strict=True))
            ]
            if any(one["n_wrong"] for one in found):
                return {"draws": labels, "wrong": found}
        return {"draws": labels, "wrong": []}

    def _give_state(self, model: Any) -> None:
        """Give a point the reference's parameters themselves, and copies of its buffers."""
        shared = dict(self.model.named_parameters())
        own = model.state_dict()
        state = {}
        for name, value in self.model.state_dict().items():
            mine = own.get(name, value)
            is_alike = mine.shape == value.shape and mine.dtype == value.dtype
            if not is_alike:
                model.load_state_dict(self.model.state_dict(), strict=False)
                return
            is_shared = name in shared and mine.stride() == value.stride()
            state[name] = value if is_shared else torch.empty_like(mine).copy_(value)
        model.load_state_dict(state, strict=False, assign=True)

    def _once(self, model: Any, *, is_compared: bool = False) -> float:
        self.placement.synchronise()
        started = time.perf_counter()
        with torch.no_grad():
            given = model(*self.inputs)
        self.placement.synchronise()
        seconds = time.perf_counter() - started
        if is_compared:
            torch.testing.assert_close(
                _sampled(given), _sampled(self.expected), rtol=LOOSE, atol=LOOSE, equal_nan=True
            )
        return seconds

    def time(self, numbers: list[int], rounds: int, limit_s: float) -> dict[str, list[float]]:
        """Return milliseconds of a call of each point, turn by turn, in an order drawn anew for each turn.

        No turn is begun for which the time will not do.
        """
        rng = random.Random(len(numbers))
        found: dict[str, list[float]] = {str(number): [] for number in numbers}
        started, done = time.perf_counter(), 0
        for done in range(1, rounds + 1):
            for number in rng.sample(numbers, len(numbers)):
                found[str(number)].append(self._sample(number))
            taken = time.perf_counter() - started
            if taken * (done + 1) / done > limit_s:
                break
        return found

    def _sample(self, number: int) -> float:
        model, calls = self.points[number], self.calls[number]
        with torch.no_grad():
            if calls * WARM_BELOW_S > SAMPLE_S:
                model(*self.inputs)
            self.placement.synchronise()
            started = time.perf_counter()
            for inputs in islice(cycle(self.lanes), calls):
                model(*inputs)
            self.placement.synchronise()
        taken = time.perf_counter() - started
        self.calls[number] = max(1, min(MOST_CALLS, round(calls * SAMPLE_S / max(taken, 1e-9))))
        return taken / calls * 1e3


def build_patience_s(left_s: float, default_s: float | None) -> float:
    """Return the seconds that one point may take to build, by what the run has left and its defaults took.

    Never fewer than twice what the defaults took, whose compiler may be slow. None: these are the defaults.
    """
    if default_s is None:
        return BUILD_S
    least_s = max(LEAST_BUILD_S, 2 * default_s)
    return min(BUILD_S, max(least_s, min(BUILD_SHARE * left_s, BUILD_FACTOR * default_s)))


def _sampled(value: Any) -> Any:
    """Return the same structure with elements spread over each tensor, all of small ones."""

    def spread(tensor: torch.Tensor) -> torch.Tensor:
        flat = tensor.detach().reshape(-1)
        step = max(1, math.ceil(flat.numel() / COMPARED)) | 1  # odd: no column of a power of two is left out
        return flat[::step]

    return _mapped(value, spread)


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return the same structure with other tensors."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, list | tuple):
        items = [_mapped(item, change) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {name: _mapped(item, change) for name, item in value.items()}
    return value


def _n_bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.nbytes
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return sum(map(_n_bytes, parts))


def _module(name: str, source: str) -> ModuleType:
    filename = f"<{name}>"
    module = ModuleType(name)
    module.__file__ = filename
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)  # Triton reads it
    sys.modules[name] = module
    exec(compile(source, filename, "exec"), module.__dict__)
    return module


def main() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    placement, found = place(json.loads(sys.argv[3]))
    use_tf32(False)  # as the referee has it for references
    where = int(sys.argv[2]), placement, DeviceFacts.of(**found)
    worker: PointWorker | None = None
    for line in sys.stdin:
        request = json.loads(line)
        wanted = request.pop("op")
        try:
            if wanted == "open":
                worker = PointWorker(request["task"], request["is_eval"], *where)
            answer = True if wanted == "open" else getattr(worker, wanted)(**request)
            answers.write(json.dumps({"answer": answer}) + "\n")
        except Exception as error:  # the parent decides what it means
            answers.write(json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}) + "\n")


if __name__ == "__main__":
    main()

"""Can the machine be as fast as a measured latency? Where the stored peaks say no, they are measured again.

A candidate beyond its floor has cheated, or the peaks were measured too low: by a probe that other work
disturbed, or because the machine has become faster since. So nobody is rejected by stored peaks. They are
measured again once no process of the candidate is left; only who is still beyond the floor is rejected.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from kernelwright.core.evaluation import Check, Status, WorkloadResult
from kernelwright.core.roofline import Floor, Work, floor
from kernelwright.machine.peaks import measure_again
from kernelwright.referee.device import Device
from kernelwright.referee.session.candidate_process import Failure
from kernelwright.targets.gpu.peaks import gpu_here
from kernelwright.targets.gpu.roofline import ceilings, gpu_peaks

LEAST_MS = 1e-5
"""No call of anything can be as short as this."""
FRESH_S = 60.0
"""Peaks that were measured again at most this long ago need no third measurement."""

FloorOf: TypeAlias = Callable[[Work], Floor]
MeasureAgain: TypeAlias = Callable[[], FloorOf | None]
"""Measures the machine's peaks and returns what follows from them; None where it cannot be measured."""


class FloorCheck:
    """The floors of one referee, with what it has learnt of them since they were computed."""

    def __init__(
        self, margin: float, again: MeasureAgain, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Set up: who is faster than a floor by more than ``margin`` is doubted; ``again`` settles it."""
        self._margin, self._again, self._clock = margin, again, clock
        self._corrected: FloorOf | None = None
        self._measured_at = -math.inf

    def known(self, given: Floor | None) -> Floor | None:
        """Return a floor as given, or the lower one that a later measurement of the peaks allows."""
        if given is None or self._corrected is None:
            return given
        return min(given, self._corrected(given.work), key=lambda found: found.least_ms)

    def check(self, result: WorkloadResult, given: Floor | None) -> WorkloadResult:
        """Return the result with its floor; raises Failure when the latency is impossible.

        Call it when the candidate's processes have ended. May measure for some seconds.
        """
        ms = result.candidate.median_ms
        if not math.isfinite(ms) or ms <= LEAST_MS:
            raise Failure(Status.REJECTED, f"a latency of {ms:.3g} ms is not possible", check=Check.FLOOR)
        floor_now = self.known(given)
        if floor_now is None or not self.is_beyond(ms, floor_now):
            return result.model_copy(update={"floor_ms": None if floor_now is None else floor_now.ms})
        was = floor_now
        self._measure_again()
        floor_now = self.known(given) or was
        if self.is_beyond(ms, floor_now):
            raise Failure(Status.REJECTED, _impossible(ms, floor_now), check=Check.FLOOR)
        return result.model_copy(update={"floor_ms": floor_now.ms, "floor_was_ms": was.ms})

    def is_beyond(self, ms: float, floor_now: Floor) -> bool:
        """Tell whether a latency is doubted."""
        return floor_now.least_ms > self._margin * ms

    def _measure_again(self) -> None:
        if self._clock() - self._measured_at < FRESH_S:
            return
        found = self._again()
        if found is not None:
            self._corrected, self._measured_at = found, self._clock()


def _impossible(ms: float, floor_now: Floor) -> str:
    return (
        f"{ms:.4g} ms is {floor_now.least_ms / ms:.2f}x faster than the roofline floor "
        f"({floor_now.least_ms:.4g} ms), also after the machine's peaks were measured again: it cannot have "
        "done the work"
    )


def measured_floors(device: Device, cache_dir: Path) -> FloorOf | None:
    """Measure what a device can do at best, and keep it; the highest rate of any round counts.

    None where the device cannot be measured: it is no GPU of this machine.

    Raises:
        MachineError: the probe cannot be built or run.
    """
    if not device.is_apart:
        peaks = measure_again(cache_dir).highest()
        return lambda work: floor(work, peaks)
    gpu = gpu_here(device.kind, cache_dir, refresh=True) if device.has_driver else None
    if gpu is None:
        return None
    return lambda work: floor(work, gpu_peaks(ceilings(gpu), is_strict=not work.may_round))

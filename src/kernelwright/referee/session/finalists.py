"""Times verified candidates in turn with each other, to tell which of them is the fastest.

Two measurements at different times differ by what else the machine did. Here every sample of one candidate
stands beside a sample of each other one. Processes differ too, so there are several sets of them. Outputs are
not looked at: whoever is chosen gets a final evaluation, which decides.
"""

import contextlib
import math
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.core.candidate import Candidate
from kernelwright.core.finalists import Alternation
from kernelwright.machine.device_lease import DeviceLease
from kernelwright.referee.device import parse_device
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.launcher import Launcher
from kernelwright.referee.session.reference_process import ReferenceProcess
from kernelwright.referee.session.weight_exchange import WeightExchange
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.timing.statistics import LOOKS, is_telling, over_processes

WARM_UP_CALLS = 3
MOST_CALLS = 2000
LEAST_ROUNDS, MOST_ROUNDS = 5, 25
QUICK_S = 0.05
"""A side with faster calls than this makes one call that is not counted before every sample."""


@dataclass(frozen=True)
class Finalist:
    """A candidate as it is run."""

    id: str
    program: str
    library: Path | None
    """What was compiled from it."""


@dataclass
class _TimedFinalist:
    finalist: Finalist
    worker: CandidateProcess
    calls: int = 1
    per_call_s: float = 0.0
    samples_s: list[float] = field(default_factory=list)
    """Seconds of a call, one entry a round."""


class Contest:
    """One comparison of finalists on every workload of a task."""

    def __init__(
        self, launcher: Launcher, settings: RefereeSettings, references: Sequence[ReferenceProcess]
    ) -> None:
        self._launcher, self._settings, self._references = launcher, settings, references
        self._rng = random.Random()
        self._left_out: dict[str, str] = {}

    def run(self, finalists: Sequence[Finalist], limit_s: float) -> Alternation | None:
        """Return the order of the finalists; None where fewer than two can be timed.

        No set of processes is begun that would probably end after ``limit_s``. One set alone says nothing of
        how processes differ, so there is no order then.
        """
        begin = time.perf_counter()
        logs: list[dict[str, float]] = []
        while not self._is_settled(finalists, logs):
            spent_s = time.perf_counter() - begin
            if logs and spent_s * (len(logs) + 1) / len(logs) > limit_s:
                break
            logs.append(self._set(self._left(finalists)))
            if len(self._left(finalists)) < 2:
                return None
        seconds = time.perf_counter() - begin
        return self._conclude(self._left(finalists), logs, seconds) if len(logs) > 1 else None

    def _left(self, finalists: Sequence[Finalist]) -> list[Finalist]:
        return [finalist for finalist in finalists if finalist.id not in self._left_out]

    def _is_settled(self, finalists: Sequence[Finalist], logs: Sequence[dict[str, float]]) -> bool:
        if len(logs) not in LOOKS:
            return False
        found = self._conclude(self._left(finalists), logs, 0.0)
        return len(logs) == LOOKS[1] or all(is_telling(lead) for lead in found.leads)

    def _conclude(
        self, finalists: Sequence[Finalist], logs: Sequence[dict[str, float]], seconds: float
    ) -> Alternation:
        means = {f.id: statistics.fmean(each[f.id] for each in logs) for f in finalists}
        first, *others = sorted(means, key=lambda name: means[name])
        leads = [over_processes(name, [each[name] - each[first] for each in logs]) for name in others]
        return Alternation(
            order=(first, *others),
            leads=tuple(leads),
            left_out=tuple(self._left_out.items()),
            seconds=seconds,
        )

    def _set(self, finalists: Sequence[Finalist]) -> dict[str, float]:
        """Return for each finalist the logarithm of its time in one set of processes, over all workloads.

        Only differences mean something: each is relative to the first finalist, round by round.
        """
        totals = {finalist.id: 0.0 for finalist in finalists}
        for reference in self._references:
            with self._sides(reference, finalists) as sides:
                with DeviceLease(parse_device(self._settings.device).lease_names(), self._launcher.tell):
                    self._time(reference, sides)
                known = [side for side in sides if side.finalist.id not in self._left_out]
                for side in known:
                    pairs = zip(side.samples_s, known[0].samples_s, strict=True)
                    totals[side.finalist.id] += statistics.median(math.log(a / b) for a, b in pairs)
        return {name: total / len(self._references) for name, total in totals.items()}

    @contextlib.contextmanager
    def _sides(
        self, reference: ReferenceProcess, finalists: Sequence[Finalist]
    ) -> Iterator[list[_TimedFinalist]]:
        """Start one process for each finalist that can be; order is drawn, since memory fills up."""
        sides: list[_TimedFinalist] = []
        state = WeightExchange(reference).next()
        draws = [draw for key in reference.timed_keys if (draw := reference.draw(key))]
        try:
            for finalist in self._rng.sample(finalists, len(finalists)):
                worker = CandidateProcess(self._launcher, self._settings, reference, finalist.library)
                side = _TimedFinalist(finalist, worker)
                sides.append(side)
                with self._leaving_out(side):
                    worker.load(finalist.program)
                    worker.load_state(state)
                    for slot, draw in zip(worker.slots, draws, strict=False):
                        worker.fill(slot, draw.inputs)
                    self._calibrate(reference, side)
            yield sides
        finally:
            for side in sides:
                side.worker.close()

    @contextlib.contextmanager
    def _leaving_out(self, side: _TimedFinalist) -> Iterator[None]:
        """Leave a finalist out from now on when it fails."""
        try:
            yield
        except Failure as failure:
            self._left_out.setdefault(side.finalist.id, f"{failure.status}: {failure.detail}")

    def _calibrate(self, reference: ReferenceProcess, side: _TimedFinalist) -> None:
        side.worker.run(list(side.worker.slots)[:1])
        for _ in range(WARM_UP_CALLS):
            self._sample_s(reference, side, 1)
        calls = 1
        while (seconds := self._sample_s(reference, side, calls)) < self._settings.batch_s / 2:
            if calls >= MOST_CALLS:
                break
            calls = min(4 * calls, MOST_CALLS)
        side.per_call_s = max(seconds / calls, 1e-7)
        side.calls = max(1, min(math.ceil(self._settings.batch_s / side.per_call_s), MOST_CALLS))

    def _time(self, reference: ReferenceProcess, sides: Sequence[_TimedFinalist]) -> None:
        begin = time.perf_counter()
        for n in range(MOST_ROUNDS):
            known = [side for side in sides if side.finalist.id not in self._left_out]
            for side in self._rng.sample(known, len(known)):
                with self._leaving_out(side), contextlib.ExitStack() as still:
                    for other in sides:
                        if other is not side:
                            still.enter_context(other.worker.held_back())
                    if side.per_call_s < QUICK_S:
                        self._sample_s(reference, side, 1)
                    side.samples_s.append(self._sample_s(reference, side, side.calls) / side.calls)
            if n + 1 >= LEAST_ROUNDS and time.perf_counter() - begin > self._settings.search_timing_s:
                break

    def _sample_s(self, reference: ReferenceProcess, side: _TimedFinalist, calls: int) -> float:
        """Return the seconds of so many calls by the parent's clock, asking and answering included."""
        names = reference.first_sets
        order = self._rng.sample(names, len(names))
        side.worker.time(order, calls)
        return side.worker.child.answered_in_s


def finalist_of(candidate: Candidate, library: Path | None) -> Finalist:
    """Return a candidate with what was built of it."""
    return Finalist(candidate.id, candidate.program, library)

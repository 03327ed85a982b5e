"""What an evaluation has found so far, and what all of its processes agree on."""

import contextlib
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kernelwright.core.evaluation import NumericalError, OrdinaryResult, PeakMemory, Stage
from kernelwright.core.evidence import FactValue
from kernelwright.machine.device_lease import DeviceLease
from kernelwright.referee.worker.wire import Message

WAITING = "waiting"
"""Phase in which an evaluation waited for other processes to give the device back."""
NO_WAIT_S = 0.02


class Dossier:
    """What one evaluation has found so far."""

    def __init__(self) -> None:
        self.stage = Stage.GUARD
        """The stage that runs, or ran last."""
        self.phases_s: dict[str, float] = {}
        self.log = ""
        self.facts: dict[str, FactValue] = {}
        self.library: Path | None = None
        """What was built for the candidate."""
        self.library_calls: dict[str, int] = {}
        self.families_skipped: dict[str, str] = {}
        self.missing_baselines: dict[str, str] = {}
        """Baseline -> why there was none."""
        self.not_replayed: set[str] = set()
        """Workloads on which the candidate was too slow for a replay to matter."""
        self.ordinary: list[OrdinaryResult] = []
        self.memory: PeakMemory | None = None
        """Of the workload that is being judged, in ordinary processes."""
        self.factors: dict[tuple[str, bool], list[float]] = defaultdict(list)
        """Workload, and whether it was timed with one thread -> what the candidate's times had to be
        multiplied by, in each pair of processes."""
        self.lot = secrets.randbelow(2)
        """Whether pairs of even or of odd number are timed again after the replay; the others are called on
        new values with one thread, too."""
        self.accepted: dict[str, Message] = {}
        """Workload -> what its reference accepts as inputs; all processes of a final agree."""
        self.is_timed_alone: dict[str, bool] = {}
        """Workload -> whether it is also timed with one thread: all pairs agree."""
        self._errors: dict[tuple[str, str, str], NumericalError] = {}
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes, each once, in the order in which they were first made."""
        return tuple(self._notes)

    @property
    def errors(self) -> tuple[NumericalError, ...]:
        """The worst error of every output on every input distribution."""
        return tuple(self._errors.values())

    @property
    def waited_s(self) -> float:
        """Seconds that the evaluation has waited for the device."""
        return self.phases_s.get(WAITING, 0.0)

    def note(self, text: str) -> None:
        """Add a note for whoever reads the evaluation."""
        self._notes[text] = None

    def keep_worst(self, errors: Sequence[NumericalError]) -> None:
        """Add errors; of those of one output on one input distribution, the largest stays."""
        for error in errors:
            key = error.workload, error.family, error.output
            if key not in self._errors or error.error > self._errors[key].error:
                self._errors[key] = error

    def take(self, lease: DeviceLease, before_wait: Callable[[], object] = lambda: None) -> bool:
        """Take a lease, and tell whether that took time; a wait is a phase of its own."""
        lease.take(before_wait)
        has_waited = lease.waited_s > NO_WAIT_S
        if has_waited:
            self.phases_s[WAITING] = self.waited_s + lease.waited_s
        return has_waited

    @contextlib.contextmanager
    def phase(self, stage: Stage) -> Iterator[None]:
        """Enter a stage, and add the time that it takes, waits apart, to its phase."""
        self.stage = stage
        begin, waited_s = time.perf_counter(), self.waited_s
        try:
            yield
        finally:
            spent = time.perf_counter() - begin - (self.waited_s - waited_s)
            self.phases_s[stage.value] = self.phases_s.get(stage.value, 0.0) + spent

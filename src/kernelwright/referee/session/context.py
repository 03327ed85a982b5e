"""What one evaluation is given, and how its processes are started."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from kernelwright.core.candidate import Candidate
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.machine.device_lease import DeviceLease
from kernelwright.referee.checks.floor import FloorCheck
from kernelwright.referee.device import parse_device
from kernelwright.referee.session.candidate_process import CandidateProcess
from kernelwright.referee.session.launcher import Launcher
from kernelwright.referee.session.lead import Lead
from kernelwright.referee.session.ordinary import TimedProgram
from kernelwright.referee.session.reference_process import ReferenceProcess
from kernelwright.referee.settings import RefereeSettings

Floors: TypeAlias = Mapping[str, Floor] | Callable[[], Mapping[str, Floor]]
"""Workload -> roofline floor, or what gives them; it is called before the first timing."""


@dataclass(frozen=True)
class JudgingContext:
    """The candidate of one evaluation, its task, the settings, and who starts processes."""

    launcher: Launcher
    settings: RefereeSettings
    task: Task
    candidate: Candidate
    architecture: str | None
    floor_check: FloorCheck
    given_floors: Floors
    baselines: tuple[str, ...]
    """What the candidate is timed against."""
    ordinary: Launcher | None
    """Starts the ordinary processes of a final; None: this is no final."""
    lead: Lead | None = None
    """Who need not be replayed; None: everybody is."""

    @property
    def is_final(self) -> bool:
        """Whether this is a final evaluation."""
        return self.ordinary is not None

    @property
    def has_ordinary(self) -> bool:
        """Whether what is delivered is also timed in ordinary processes; on a device there are none."""
        return self.is_final and not parse_device(self.settings.device).is_apart

    @cached_property
    def floors(self) -> Mapping[str, Floor]:
        """Workload -> roofline floor; what makes the floors runs when they are first asked for."""
        given = self.given_floors
        return given() if callable(given) else given

    def begin_ordinary(self) -> None:
        """Have what forks ordinary processes start beside what comes before their turn."""
        if self.ordinary is not None and self.has_ordinary:
            self.ordinary.start()

    def settle(self) -> None:
        """Wait until nothing of this evaluation works beside its timing: no floors, nothing that starts."""
        _ = self.floors
        if self.ordinary is not None and self.has_ordinary:
            self.ordinary.prepare()

    def lease(self) -> DeviceLease:
        """Return a lease on the device that candidates are timed on; it is not taken yet."""
        return DeviceLease(parse_device(self.settings.device).lease_names(), self.launcher.tell)

    def worker(
        self, reference: ReferenceProcess, library: Path | None, program: TimedProgram | None = None
    ) -> CandidateProcess:
        """Start a worker beside a reference: an ordinary one where a program is given that it is to load."""
        if program is None:
            return CandidateProcess(self.launcher, self.settings, reference, library)
        assert self.ordinary is not None
        return CandidateProcess(self.ordinary, self.settings, reference, library, program.shown)

"""The referee as its users see it: admitted tasks, and verdicts on candidates (``judging.py``)."""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.finalists import Alternation
from kernelwright.core.policy import Policy
from kernelwright.core.task import Task
from kernelwright.machine.device_lease import Tell
from kernelwright.referee.baselines import known_baselines
from kernelwright.referee.checks.floor import FloorCheck, MeasureAgain, measured_floors
from kernelwright.referee.device import parse_device
from kernelwright.referee.sandbox.tiers import Sandbox, Tier
from kernelwright.referee.session.context import Floors, JudgingContext
from kernelwright.referee.session.finalists import Contest, finalist_of
from kernelwright.referee.session.judging import Judging
from kernelwright.referee.session.launcher import INDUCTOR, Launcher
from kernelwright.referee.session.lead import Lead
from kernelwright.referee.session.preparation import build_site
from kernelwright.referee.session.reference_process import ReferenceProcess
from kernelwright.referee.session.work_process import count_work
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.timing.measure import EAGER
from kernelwright.targets.registry import build_candidate
from kernelwright.tasks.counted import CountedWork

__all__ = ["Referee", "RefereeSession", "RefereeSettings"]

log = logging.getLogger(__name__)

COMPILES = re.compile(r"\btorch\s*\.\s*compile\b|\bimport\s+compile\b|\b_inductor\b|\b_dynamo\b")
"""A source that has this may call torch.compile. It decides what is imported early, never a verdict."""


class Referee:
    """Judges candidates. Starts the zygote from which all other processes are forked; a context manager."""

    def __init__(
        self,
        settings: RefereeSettings,
        tell: Tell | None = None,
        *,
        measure_again: MeasureAgain | None = None,
    ) -> None:
        """Start the zygote, without waiting for its imports.

        Args:
            settings: See ``RefereeSettings``.
            tell: Is told in one line what an evaluation waits for; None: the log, as a warning.
            measure_again: Stands in for the probe that settles doubts about a floor.
        """
        self.settings = settings
        device = parse_device(settings.device)
        again = measure_again or partial(measured_floors, device, settings.cache_dir)
        self._floors = FloorCheck(settings.floor_margin, again)
        self._launcher = Launcher(settings)
        self._ordinary = Launcher(settings, is_ordinary=True)
        self.tell = tell or log.warning
        self._launcher.start()

    def open(self, task: Task, policy: Policy | None = None) -> "RefereeSession":
        """Admit a task: run its reference and draw the first inputs, weights and oracle.

        ``policy`` stands in the place of the settings' one.

        Raises:
            TaskError: the task has no right answer to judge by; one line says why.
            MachineError: a process cannot be started or memory cannot be shared.
        """
        settings = self.settings if policy is None else replace(self.settings, policy=policy)
        return RefereeSession(self._launcher, self._ordinary, settings, task, self._floors)

    @property
    def tell(self) -> Tell:
        """What is told what an evaluation waits for."""
        return self._launcher.tell

    @tell.setter
    def tell(self, tell: Tell) -> None:
        self._launcher.tell = self._ordinary.tell = tell

    def count_work(self, task: Task) -> CountedWork:
        """Count what a task must do at least, in a process of its own; may run beside ``open``.

        What the cache folder keeps of the task is counted again only if something in it has changed.

        Raises:
            MachineError: a process cannot be started, or it died.
        """
        return count_work(self._launcher, self.settings, task)

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of candidates on this machine, with reasons why there is no stronger one."""
        return self._launcher.sandbox

    @property
    def tier(self) -> Tier:
        """How strongly candidates are confined on this machine."""
        return self._launcher.sandbox.tier

    def abandon(self) -> None:
        """Have the evaluation that another thread has asked for end soon, with whatever verdict."""
        self._launcher.abandon()
        self._ordinary.abandon()

    def close(self) -> None:
        """End every process."""
        self._ordinary.close()
        self._launcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RefereeSession:
    """One admitted task. Evaluations are independent of each other. Not safe for use by two threads."""

    def __init__(
        self,
        launcher: Launcher,
        ordinary: Launcher,
        settings: RefereeSettings,
        task: Task,
        floors: FloorCheck,
    ) -> None:
        """``ordinary`` starts processes that have malloc as it is by default."""
        self.task = task
        self._launcher, self._settings, self._floors = launcher, settings, floors
        self._ordinary = ordinary
        self._lead = Lead() if settings.replays_leaders_only else None
        self._references = self._open_references()
        self._is_met = False
        """A candidate may have met samples of the session."""

    @property
    def baseline_ms(self) -> dict[str, float]:
        """Return workload -> latency of the eager reference at admission (the best of a few calls)."""
        return {reference.workload.name: reference.eager_ms for reference in self._timed}

    @property
    def scratch_prefix(self) -> str:
        """Prefix of the names of candidates' scratch directories in the folder for temporary files."""
        return self._launcher.scratch_prefix

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Floors | None = None,
        baselines: Sequence[str] = ("eager",),
    ) -> Evaluation:
        """Judge one candidate on every workload.

        Args:
            candidate: What to judge; none of its code runs in this process.
            final: Use several pairs of fresh processes, for the reference too, and fresh seeds only.
            floors: See ``Floors``. Where a candidate is far faster than its floor, the machine's peaks are
                measured again; one that still is, is rejected.
            baselines: What to compare with. One that cannot be made is left out, and
                ``missing_baselines`` says why.

        Raises:
            TaskError: the reference failed, or its process died.
            MachineError: no compiler, no memory, no process.
        """
        known = known_baselines(self._settings.device)
        unknown = sorted(set(baselines) - set(known))
        if unknown:
            raise MachineError(f"unknown baseline {unknown[0]!r}; known: {', '.join(known)}")
        architecture = self._references[0].architecture
        if COMPILES.search(candidate.program) or (final and set(baselines) - {EAGER}):
            has_ordinary = final and not parse_device(self._settings.device).is_apart
            for launcher in (self._launcher, self._ordinary) if has_ordinary else (self._launcher,):
                launcher.load(INDUCTOR)
        context = JudgingContext(
            launcher=self._launcher, settings=self._settings, task=self.task, candidate=candidate,
            architecture=architecture, floor_check=self._floors, given_floors=floors or {},
            baselines=tuple(baselines), ordinary=self._ordinary if final else None,
            lead=None if final else self._lead,
        )  # fmt: skip
        if final:
            return Judging(context).judge(())
        for reference in self._references if self._is_met else ():
            reference.forget_met()
        self._is_met = True
        return Judging(context).judge(self._references)

    def alternate(self, candidates: Sequence[Candidate], limit_s: float | None = None) -> Alternation | None:
        """Time candidates in turn with each other; None where fewer than two of them run, or no time is left.

        They were verified before: nothing is verified here, and no verdict follows.

        Raises:
            TaskError: the reference failed, or its process died.
            MachineError: no compiler, no memory, no process.
        """
        architecture = self._references[0].architecture
        site = build_site(self._launcher, self._settings, architecture)
        built = [(candidate, build_candidate(candidate.program, site)) for candidate in candidates]
        finalists = [finalist_of(candidate, found.library) for candidate, found in built if not found.error]
        if len(finalists) < 2:
            return None
        contest = Contest(self._launcher, self._settings, self._timed)
        return contest.run(finalists, self._settings.final_seconds if limit_s is None else limit_s)

    def close(self) -> None:
        """End the reference's processes."""
        _close_all(self._references)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _timed(self) -> list[ReferenceProcess]:
        return [reference for reference in self._references if reference.workload.is_timed]

    def _open_references(self) -> list[ReferenceProcess]:
        references: list[ReferenceProcess] = []
        try:
            for workload in self.task.workloads:
                references.append(ReferenceProcess(self._launcher, self._settings, self.task, workload))
        except BaseException:
            _close_all(references)
            raise
        return references


def _close_all(references: Sequence[ReferenceProcess]) -> None:
    for reference in references:
        reference.close()

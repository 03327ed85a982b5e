"""A run's events told as steps: what was seen, what was tried, how it ended."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.events import (
    BaseReplaced,
    CandidateEvaluated,
    CandidateWritten,
    Diagnosed,
    Event,
    IncumbentImproved,
    LoweringGaveUp,
    MoveChosen,
    MoveFailed,
    Noted,
    RunFinished,
    RunInterrupted,
    RunStarted,
    StepStarted,
    TaskPrepared,
)
from kernelwright.core.plan import Move
from kernelwright.report.measures import Interval, speedup_over

TITLES = {"root": "the reference itself", "final": "winner again, fresh process", "cross": "crossed plans"}
"""Of steps without a move, where the mode's own name says too little."""


@dataclass
class Step:
    """One round; fields are None until, or unless, it happened."""

    number: int
    mode: str
    base: str | None = None
    diagnosed: Diagnosed | None = None
    chosen: MoveChosen | None = None
    failed: MoveFailed | None = None
    candidate: str | None = None
    evaluation: Evaluation | None = None
    became_base: bool = False
    improved_to: float | None = None
    noted: list[Noted] = field(default_factory=list)
    """What roles said in it that is no move: picks, designs, crossed plans, unusable answers."""
    is_over: bool = False
    """True once a later step began or the run ended."""

    @property
    def move(self) -> Move | None:
        """The move that was chosen, or that could not be carried out."""
        if self.chosen is not None:
            return self.chosen.move
        return self.failed.move if self.failed is not None else None

    @property
    def title(self) -> str:
        """The move in short, or the step's purpose where there is no move."""
        if self.move is None:
            return TITLES.get(self.mode, self.mode)
        where = f" @ {self.move.region}" if self.move.region else ""
        params = ", ".join(f"{name}={value}" for name, value in self.move.params.items())
        return f"{self.move.skill}{where}" + (f" ({params})" if params else "")

    @property
    def speedup(self) -> Interval | None:
        """Speedup over eager, None when not verified or not yet measured."""
        return None if self.evaluation is None else speedup_over(self.evaluation, "eager")

    @property
    def outcome(self) -> str:
        """Status in words: ``verified``, ``compile error``, ``not applicable``, ``running`` …."""
        if self.failed is not None:
            return "not applicable"
        if self.evaluation is not None:
            check = self.evaluation.check if self.evaluation.status is Status.REJECTED else None
            found_by = f" by {check}" if check is not None else ""
            return f"{self.evaluation.status}{found_by}".replace("_", " ")
        return "nothing left to try" if self.is_over else "running"

    @property
    def explanation(self) -> str:
        """Why it failed, in one line; empty when it did not."""
        if self.failed is not None:
            return self.failed.reason
        if self.evaluation is None and self.noted:
            return self.noted[-1].text
        if self.evaluation is None or self.evaluation.status is Status.VERIFIED:
            return ""
        return self.evaluation.detail


@dataclass
class Story:
    """Everything a report or a progress display says about a run."""

    started: RunStarted | None = None
    prepared: TaskPrepared | None = None
    steps: list[Step] = field(default_factory=list)
    finished: RunFinished | None = None
    interrupted: RunInterrupted | None = None
    """The last event of a run that was interrupted; None once it was carried on."""
    given_up: list[LoweringGaveUp] = field(default_factory=list)
    """Where the compiler generated nothing, each workload and reason once."""

    def add(self, event: Event) -> None:
        """Take in the next event."""
        self.interrupted = event if isinstance(event, RunInterrupted) else None
        if isinstance(event, RunStarted):
            self.started = event
        elif isinstance(event, TaskPrepared):
            self.prepared = event
        elif isinstance(event, RunFinished):
            self.finished = event
            self._close()
        elif isinstance(event, StepStarted):
            self._begin(event)
        elif isinstance(event, LoweringGaveUp):
            self._give_up(event)
        elif isinstance(event, RunInterrupted):
            self._close()
        else:
            self._attach(event)

    @property
    def compiler(self) -> str:
        """What kept the compiler from its work, in one line; empty where nothing did."""
        if self.prepared is not None and self.prepared.capture_error:
            return f"not captured: {self.prepared.capture_error}"
        words = dict.fromkeys(f"{told.workload}: {told.reason}" for told in self.given_up)
        return f"gave up on {'; '.join(words)}" if words else ""

    def _give_up(self, event: LoweringGaveUp) -> None:
        known = {(told.workload, told.reason) for told in self.given_up}
        if (event.workload, event.reason) not in known:  # a resumed run may tell it again
            self.given_up.append(event)

    def _begin(self, event: StepStarted) -> None:
        # A resumed run tells the step in flight again, and later ones where it took another turn.
        self.steps = [step for step in self.steps if step.number < event.step]
        self._close()
        self.steps.append(Step(number=event.step, mode=event.mode, base=event.base))

    def _close(self) -> None:
        for step in self.steps:
            step.is_over = True

    def _attach(
        self,
        event: Diagnosed
        | MoveChosen
        | MoveFailed
        | Noted
        | CandidateWritten
        | CandidateEvaluated
        | BaseReplaced
        | IncumbentImproved,
    ) -> None:
        step = self._step_for(event)
        if isinstance(event, Noted):
            step.noted.append(event)
        elif isinstance(event, Diagnosed):
            step.diagnosed = event
        elif isinstance(event, MoveChosen):
            step.chosen = event
        elif isinstance(event, MoveFailed):
            step.failed = event
        elif isinstance(event, CandidateWritten):
            step.candidate = event.candidate
        elif isinstance(event, CandidateEvaluated):
            step.candidate, step.evaluation = event.candidate, event.evaluation
        elif isinstance(event, BaseReplaced):
            step.became_base = True
        else:
            step.improved_to = event.speedup

    def _step_for(self, event: Event) -> Step:
        """Return the step an event belongs to, a further attempt of it when the last one has ended."""
        number = getattr(event, "step", 0)
        if isinstance(event, BaseReplaced):
            own = [s for s in self.steps if s.number == number and s.candidate == event.candidate]
            if own:
                return own[-1]
        last = next((step for step in reversed(self.steps) if step.number == number), None)
        if last is None:
            last = Step(number=number, mode="optimize")
            self.steps.append(last)
        starts_anew = isinstance(event, MoveChosen | MoveFailed | CandidateWritten)
        if starts_anew and (last.failed is not None or last.evaluation is not None):
            last = Step(number=number, mode=last.mode, base=last.base, diagnosed=last.diagnosed)
            self.steps.append(last)
        return last

    @property
    def best(self) -> Step | None:
        """The verified step with the highest speedup so far, the final measurement apart."""
        timed = [step for step in self.steps if step.speedup is not None and step.mode != "final"]
        return max(timed, key=lambda step: step.speedup or (0.0, 0.0, 0.0), default=None)

    @property
    def evaluated(self) -> list[Step]:
        """The steps that spent an evaluation in the search, in order."""
        return [step for step in self.steps if step.evaluation is not None and step.mode != "final"]


def tell(events: Iterable[Event]) -> Story:
    """Fold a run's events, in order, into its story."""
    story = Story()
    for event in events:
        story.add(event)
    return story

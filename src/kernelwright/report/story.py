"""Turns a run's events into steps: what was diagnosed, what was tried, how it ended."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.events import (
    BaseReplaced,
    CandidateEvaluated,
    CandidateWritten,
    ComparedWithBase,
    Diagnosed,
    Event,
    FinalistsTimed,
    IncumbentImproved,
    LoweringGaveUp,
    ModelProfiled,
    ModelTakenApart,
    MoveChosen,
    MoveFailed,
    Noted,
    ParametersClosed,
    RunFinished,
    RunInterrupted,
    RunStarted,
    StepStarted,
    TaskPrepared,
)
from kernelwright.core.plan import Move
from kernelwright.report.measures import RatioInterval, speedup_over

TITLES = {
    "root": "the reference itself",
    "seed": "starting candidate",
    "final": "winner again, fresh process",
    "cross": "crossed plans",
    "compose": "the model with kernels in its blocks",
}
"""Titles of steps without a move, where the name of the mode says too little."""


@dataclass
class StoryStep:
    """One round; a field is None until its event has happened."""

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
    """Statements of roles in this step that are no moves: picks, designs, crossed plans, unusable answers."""
    is_over: bool = False
    """True once a later step began or the run ended."""

    @property
    def move(self) -> Move | None:
        """The move that was chosen, or the one that could not be carried out."""
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
    def speedup(self) -> RatioInterval | None:
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
    steps: list[StoryStep] = field(default_factory=list)
    finished: RunFinished | None = None
    interrupted: RunInterrupted | None = None
    """The last event of a run that was interrupted; None once it was carried on."""
    finalists: FinalistsTimed | None = None
    """How the fastest candidates did in turn with each other; None where they were not timed so."""
    apart: ModelTakenApart | None = None
    """Where a whole model's time goes; None where the task is one kernel."""
    given_up: list[LoweringGaveUp] = field(default_factory=list)
    """Where the compiler generated nothing, each workload and reason once."""

    def add(self, event: Event) -> None:
        """Add the next event."""
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
        elif isinstance(event, FinalistsTimed):
            self.finalists = event
        elif isinstance(event, ModelTakenApart):
            self.apart = event
        elif not isinstance(event, ModelProfiled):
            self._attach(event)

    @property
    def compiler(self) -> str:
        """Why the compiler generated nothing, in one line; empty where it did its work."""
        if self.prepared is not None and self.prepared.capture_error:
            return f"not captured: {self.prepared.capture_error}"
        words = dict.fromkeys(f"{told.workload}: {told.reason}" for told in self.given_up)
        return f"gave up on {'; '.join(words)}" if words else ""

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices of a fleet that judged, in the order of their first verdicts; none without a fleet."""
        judged = (step.evaluation.device for step in self.steps if step.evaluation is not None)
        return tuple(dict.fromkeys(device for device in judged if device is not None))

    @property
    def moved(self) -> str:
        """What a run that lost its device does not have from one device; empty where one judged."""
        if len(self.devices) < 2:
            return ""
        return (
            "The run went from one device to another like it. Roles were told eager's latency on "
            f"{self.devices[0]}; every verdict has eager's on its own device."
        )

    def _give_up(self, event: LoweringGaveUp) -> None:
        known = {(told.workload, told.reason) for told in self.given_up}
        if (event.workload, event.reason) not in known:  # a resumed run may tell it again
            self.given_up.append(event)

    def _begin(self, event: StepStarted) -> None:
        # A resumed run repeats the events of the interrupted step, and of later steps that went differently.
        self.steps = [step for step in self.steps if step.number < event.step]
        self._close()
        self.steps.append(StoryStep(number=event.step, mode=event.mode, base=event.base))

    def _close(self) -> None:
        for step in self.steps:
            step.is_over = True

    def _attach(
        self,
        event: Diagnosed
        | MoveChosen
        | MoveFailed
        | Noted
        | ParametersClosed
        | CandidateWritten
        | CandidateEvaluated
        | ComparedWithBase
        | BaseReplaced
        | IncumbentImproved,
    ) -> None:
        step = self._step_for(event)
        if isinstance(event, Noted):
            step.noted.append(event)
        elif isinstance(event, ParametersClosed):
            told = event.closing.headline
            step.noted.append(Noted(step=event.step, role="tuning", text=told, candidate=event.candidate))
        elif isinstance(event, ComparedWithBase):
            told = event.speedup.against(event.base[:8]) if event.speedup is not None else "it failed"
            told = f"timed in turn: {told}"
            step.noted.append(Noted(step=event.step, role="referee", text=told, candidate=event.candidate))
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

    def _step_for(self, event: Event) -> StoryStep:
        """Return the step of an event; begin a further attempt of the step when its last one has ended."""
        number = getattr(event, "step", 0)
        if isinstance(event, BaseReplaced):
            own = [s for s in self.steps if s.number == number and s.candidate == event.candidate]
            if own:
                return own[-1]
        last = next((step for step in reversed(self.steps) if step.number == number), None)
        if last is None:
            last = StoryStep(number=number, mode="optimize")
            self.steps.append(last)
        starts_anew = isinstance(event, MoveChosen | MoveFailed | CandidateWritten)
        if starts_anew and (last.failed is not None or last.evaluation is not None):
            last = StoryStep(number=number, mode=last.mode, base=last.base, diagnosed=last.diagnosed)
            self.steps.append(last)
        return last

    @property
    def best(self) -> StoryStep | None:
        """The verified step with the highest speedup so far, not counting the final measurement."""
        timed = [step for step in self.steps if step.speedup is not None and step.mode != "final"]
        return max(timed, key=lambda step: step.speedup or (0.0, 0.0, 0.0), default=None)

    @property
    def evaluated(self) -> list[StoryStep]:
        """The steps that spent an evaluation in the search, in order."""
        return [step for step in self.steps if step.evaluation is not None and step.mode != "final"]


def tell(events: Iterable[Event]) -> Story:
    """Fold a run's events, in order, into its story."""
    story = Story()
    for event in events:
        story.add(event)
    return story

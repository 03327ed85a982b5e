"""One run of a comparison, as the store tells it."""

from collections.abc import Iterable

from pydantic import field_serializer

from kernelwright.core.candidate import Candidate
from kernelwright.core.frozen import Frozen
from kernelwright.core.model_call import CallOutcome, ModelCall
from kernelwright.core.run import RunState
from kernelwright.report.judged import judged_on
from kernelwright.report.measures import RatioInterval
from kernelwright.report.story import Story, tell
from kernelwright.report.tables import Ending, row_from_story
from kernelwright.store.base import RunRecord, Store


class Contestant(Frozen):
    """Who is compared: a recipe and the team that plays it."""

    recipe: str
    team: str

    def name_among(self, others: Iterable["Contestant"]) -> str:
        """Return the recipe's name, with the team where the others have different ones."""
        teams = {other.team for other in others} | {self.team}
        return self.recipe if len(teams) == 1 else f"{self.recipe} / {self.team}"


class Played(Frozen):
    """An ended run: what it delivered, how it got there and what it used."""

    run_id: str
    task: str
    task_id: str
    contestant: Contestant
    seed: int
    device: str = ""
    """Which judged it (``judged_on``); empty: not known."""
    ending: Ending
    detail: str = ""
    """Why the search ended, or what failed."""
    speedup: RatioInterval | None = None
    """Over eager, of what was delivered: exactly 1 for an unchanged module; None when failed."""
    best_so_far: tuple[float | None, ...] = ()
    """After each evaluation of the search: best verified speedup over eager; None before the first."""
    model_calls: int
    tokens: int
    usd: float | None
    """None when some call's price is unknown."""
    seconds: float | None
    """None when the run failed, or when its measurements were made in another one."""

    @field_serializer("speedup")
    def _name_the_ends(self, value: RatioInterval | None) -> dict[str, float] | None:
        return None if value is None else value._asdict()

    @property
    def cell(self) -> tuple[str, int]:
        """What every contestant has to play: the task and the seed."""
        return self.task_id, self.seed

    @property
    def is_success(self) -> bool:
        """True when what was delivered is verified, or the module stays as it is."""
        return self.ending is not Ending.FAILED

    @property
    def evaluations(self) -> int:
        """Evaluations that the search used."""
        return len(self.best_so_far)

    def height(self, evaluations: int) -> float:
        """Return the best so far after so many evaluations, at least 1: the unchanged module."""
        known = self.best_so_far[:evaluations]
        return max(1.0, known[-1] or 1.0) if known else 1.0


def played_run(store: Store, record: RunRecord, *, is_timed: bool = True) -> Played | None:
    """Return an ended run; None for one that is under way or was interrupted.

    ``is_timed`` False says that its seconds mean nothing.
    """
    if record.state is RunState.RUNNING:
        return None
    story = tell(stored.event for stored in store.iter_events(record.run_id))
    task = record.spec.task
    row = row_from_story(
        story,
        task=task.name,
        task_id=task.id,
        category="",
        group="",
        run_id=record.run_id,
        failure=_failure(record, story),
        winner=winner_of(store, record.run_id, story),
    )
    calls = [call for call in store.iter_model_calls(record.run_id) if call.tool is None]
    return Played(
        run_id=record.run_id,
        task=task.name,
        task_id=task.id,
        contestant=Contestant(recipe=record.spec.recipe, team=record.spec.team),
        seed=record.spec.seed,
        device=judged_on(record.spec, story),
        ending=row.ending,
        detail=row.detail,
        speedup=row.speedup_eager,
        best_so_far=best_so_far(story),
        model_calls=story.finished.spent.model_calls if story.finished else len(calls),
        tokens=story.finished.spent.tokens if story.finished else _tokens(calls),
        usd=_usd(story, calls),
        seconds=story.finished.spent.seconds if story.finished and is_timed else None,
    )


def winner_of(store: Store, run_id: str, story: Story) -> Candidate | None:
    """Return a run's winner as it was written; None where there is none."""
    winner = story.finished.winner if story.finished is not None else None
    return next((each for each in store.iter_candidates(run_id) if winner and each.id == winner), None)


def best_so_far(story: Story) -> tuple[float | None, ...]:
    """Return the best verified search speedup after each evaluation; the final measurement is apart."""
    best: float | None = None
    line = []
    for step in story.evaluated:
        if step.speedup is not None:
            best = max(best or 0.0, step.speedup.ratio)
        line.append(best)
    return tuple(line)


def _failure(record: RunRecord, story: Story) -> str | None:
    """Say why a run counts as failed, None when it does not."""
    if record.state is RunState.FAILED:
        return record.failure or "failed"
    answers = story.finished.answers if story.finished else {}
    if answers and all(CallOutcome(name).is_api_failure for name in answers):
        ended = ", ".join(f"{count} {name}" for name, count in answers.items())
        return f"every call to the model failed: {ended}"
    return None


def _tokens(calls: Iterable[ModelCall]) -> int:
    return sum(call.input_tokens + call.output_tokens for call in calls)


def _usd(story: Story, calls: list[ModelCall]) -> float | None:
    if any(call.usd is None for call in calls):
        return None
    return story.finished.spent.usd if story.finished else sum(call.usd or 0.0 for call in calls)

"""Short-term: what this run tried on each base, and the repair chain at work.

A pure function of the run's events: a resumed run replays them and stands where the interrupted one stood.
"""

from kernelwright.core.evaluation import Evaluation, Speedup, Status
from kernelwright.core.events import (
    CandidateEvaluated,
    ComparedWithBase,
    Event,
    MoveChosen,
    MoveFailed,
    StepMode,
    StepStarted,
)
from kernelwright.core.plan import Move
from kernelwright.memory.attempts import Idea, Link


class ShortTermMemory:
    """Attempts per base and repair chains."""

    def __init__(self) -> None:
        self._attempts: dict[str, dict[str, Idea]] = {}
        self._idea_of: dict[str, tuple[str, str]] = {}
        self._speedups: dict[str, float] = {}
        self._intervals: dict[str, tuple[float, float] | None] = {}
        self._mode: StepMode = "seed"
        self._step_base: str | None = None
        self._chosen: MoveChosen | None = None

    def record_seed(self, evaluation: Evaluation) -> None:
        """Note a candidate that no move led to."""
        self._note(evaluation)

    def record(self, base: str, move: Move, evaluation: Evaluation) -> Idea:
        """Note a candidate of the idea ``move`` on ``base``: its first try, or the next repair of it.

        ``base`` and ``move`` are the idea's, also for repairs; it is credited with the last evaluation.
        A candidate that the idea has already come by is not counted again (events of a resumed run).
        """
        self._note(evaluation)
        attempt = self.attempt(base, move) or Idea(
            base=base,
            move=move,
            base_speedup_eager=self._speedups.get(base),
            base_interval_eager=self._intervals.get(base),
        )
        if any(link.candidate == evaluation.candidate_id for link in attempt.links):
            return attempt
        link = Link(
            candidate=evaluation.candidate_id,
            status=evaluation.status,
            detail=evaluation.detail,
            speedup_eager=evaluation.geomean_speedup(),
            interval_eager=evaluation.speedup_interval(),
        )
        links = (*attempt.links, link)
        if attempt.is_verified and link.status is not Status.VERIFIED:  # one of several repairs at once
            links = (*attempt.links[:-1], link, attempt.links[-1])
        self._idea_of[link.candidate] = (base, move.key)
        return self._keep(attempt.model_copy(update={"links": links}))

    def record_failed_move(self, base: str, move: Move, reason: str) -> Idea:
        """Note a move that could not be carried out on this base."""
        return self._keep(Idea(base=base, move=move, failure=reason))

    def give_up(self, broken: str, reason: str) -> Idea | None:
        """Close the chain that ends in this candidate: no repair could be made.

        None when the candidate belongs to no idea (a broken seed).
        """
        attempt = self.idea_of(broken)
        return None if attempt is None else self._keep(attempt.model_copy(update={"failure": reason}))

    def observe(self, event: Event) -> None:
        """Take in one event of the run; events that say nothing of attempts are ignored."""
        match event:
            case StepStarted(mode=mode, base=base):
                self._mode, self._step_base, self._chosen = mode, base, None
            case MoveChosen():
                self._chosen = event
            case MoveFailed(base=base, move=move, reason=reason):
                self._observe_failure(base, move, reason)
            case CandidateEvaluated(evaluation=evaluation) if not evaluation.is_final:
                self._observe_evaluation(evaluation)
            case ComparedWithBase(candidate=candidate, speedup=speedup) if speedup is not None:
                self._observe_comparison(candidate, speedup)
            case _:
                pass

    def _observe_failure(self, base: str, move: Move, reason: str) -> None:
        if self._mode == "repair":
            self.give_up(base, reason)
        else:
            self.record_failed_move(base, move, reason)

    def _observe_evaluation(self, evaluation: Evaluation) -> None:
        broken = self.idea_of(self._step_base) if self._mode == "repair" and self._step_base else None
        if broken is not None:
            self.record(broken.base, broken.move, evaluation)
        elif self._mode != "repair" and self._chosen is not None:
            self.record(self._chosen.base, self._chosen.move, evaluation)
        else:
            self.record_seed(evaluation)

    def _observe_comparison(self, candidate: str, speedup: Speedup) -> None:
        idea = self.idea_of(candidate)
        if idea is None:
            return
        links = (
            link.model_copy(update={"over_base": speedup}) if link.candidate == candidate else link
            for link in idea.links
        )
        self._keep(idea.model_copy(update={"links": tuple(links)}))

    def tried(self, base: str) -> tuple[Idea, ...]:
        """Return the attempts on a base, in the order they were made."""
        return tuple(self._attempts.get(base, {}).values())

    def is_tried(self, base: str, move: Move) -> bool:
        """Tell whether this move, parameters included, was made on this base, however it ended."""
        return move.key in self._attempts.get(base, {})

    def attempt(self, base: str, move: Move) -> Idea | None:
        """Return how the move went on this base, None when it was not tried."""
        return self._attempts.get(base, {}).get(move.key)

    def idea_of(self, candidate: str) -> Idea | None:
        """Return the attempt that a candidate belongs to, as first try or as repair; None for a seed."""
        idea = self._idea_of.get(candidate)
        return None if idea is None else self._attempts[idea[0]][idea[1]]

    def _note(self, evaluation: Evaluation) -> None:
        speedup = evaluation.geomean_speedup()
        if evaluation.is_verified and speedup is not None:
            self._speedups[evaluation.candidate_id] = speedup
            self._intervals[evaluation.candidate_id] = evaluation.speedup_interval()

    def _keep(self, attempt: Idea) -> Idea:
        key = attempt.move.key
        self._attempts.setdefault(attempt.base, {})[key] = attempt
        if attempt.last is not None:
            self._idea_of[attempt.last.candidate] = (attempt.base, key)
        return attempt

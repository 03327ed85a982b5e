"""The expert Planner: ranked skills x the places where they apply, minus what was tried."""

import random
from collections.abc import Iterator, Mapping, Sequence

from kernelwright.agents.expert.extend import way_out
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Analysis, Choice, Situation
from kernelwright.core.errors import LoweringError
from kernelwright.core.evidence import Bottleneck
from kernelwright.core.plan import Move, ParamValue, Plan
from kernelwright.core.skill import RankedSkill
from kernelwright.ir.edits import Site
from kernelwright.ir.plan_lowering import site_params, sites

LATER_VALUE_DISCOUNT = 0.85
"""Each further parameter value of a site counts this much less than the one before; our choice."""
MAX_SKIPPED_SHOWN = 8
SCHEDULE = "schedule:"
"""Of lowerings that change a schedule and nothing else."""


class ExpertPlanner:
    """Chooses the move with the highest rank x analytic gain that this base has not seen."""

    def __init__(self, workshop: PlanLowering) -> None:
        self._workshop = workshop

    def plan(self, situation: Situation) -> Choice | None:
        """Return the next move (see roles.Planner)."""
        if situation.base is None or situation.analysis is None:
            return None
        if not situation.has_short_term:
            return self._drawn(situation)
        skipped: list[str] = []
        base = situation.base.candidate
        for move in self.offered(situation, base.plan, situation.analysis):
            attempt = situation.memory.attempt(base.id, move)
            if attempt is None:
                return Choice(move=move, skipped=tuple(skipped[:MAX_SKIPPED_SHOWN]))
            skipped.append(attempt.describe())
        return None

    def moves(self, situation: Situation) -> list[Move]:
        """Return what the expert Coder can carry out on a base; nothing where its plan is in words."""
        try:
            return list(self.untried(situation))
        except LoweringError:
            return []

    def untried(self, situation: Situation) -> tuple[Move, ...]:
        """Return the moves that this base has not seen, best first; none without an analysis."""
        if situation.base is None or situation.analysis is None:
            return ()
        base = situation.base.candidate
        moves = self.offered(situation, base.plan, situation.analysis)
        return tuple(move for move in moves if not situation.memory.is_tried(base.id, move))

    def offered(self, situation: Situation, plan: Plan, analysis: Analysis) -> list[Move]:
        """Return all moves on a plan, best first; without long-term memory in an order drawn by lot."""
        moves = [move for _, move in self._moves(situation, plan, analysis)]
        if not situation.has_long_term:
            random.Random(situation.chance).shuffle(moves)
        return moves

    def _drawn(self, situation: Situation) -> Choice | None:
        """Draw a move by its score: without short-term memory the best one would come up for ever."""
        assert situation.base is not None and situation.analysis is not None
        moves = self._moves(situation, situation.base.candidate.plan, situation.analysis)
        if not moves:
            return None
        rng = random.Random(situation.chance)
        weights = [max(score, 1e-6) for score, _ in moves]
        return Choice(move=rng.choices([move for _, move in moves], weights)[0])

    def _moves(self, situation: Situation, plan: Plan, analysis: Analysis) -> list[tuple[float, Move]]:
        problem = situation.problem
        carried = self._workshop.carried(problem, plan)
        done = {move.key for move in plan.moves}
        lowerings = self._workshop.lowerings(problem)
        found: dict[str, tuple[float, Move]] = {}
        for ranked in analysis.ranked:
            lowering = lowerings.get(ranked.skill)
            if situation.is_tuned and lowering is not None and lowering.startswith(SCHEDULE):
                continue
            proven = [f.params for f in situation.findings if f.skill == ranked.skill and f.params]
            for site in sites(carried, lowering) if lowering else ():
                if _promise(ranked, site) < (situation.needed or 0.0):
                    continue
                for score, move in _site_moves(ranked, site, self._expects(ranked), proven):
                    if move.key not in done:
                        found.setdefault(move.key, (score, move))
        ordered = sorted(found.values(), key=lambda pair: (-pair[0], pair[1].key))
        return [*self._leaving(problem, plan, analysis, ordered), *ordered]

    def _leaving(
        self, problem: Problem, plan: Plan, analysis: Analysis, others: list[tuple[float, Move]]
    ) -> list[tuple[float, Move]]:
        """Return the move that leaves the library seed, as good as the best of the others; none at the floor.

        It comes first because every move on generated code, most of the library of skills, waits for it.
        """
        if analysis.diagnosis.bottleneck is Bottleneck.AT_FLOOR:
            return []
        move = way_out(self._workshop, problem, plan)
        return [] if move is None else [(others[0][0] if others else 1.0, move)]

    def _expects(self, ranked: RankedSkill) -> str:
        """Return what is expected here, and what else the file announces, for the ledger to compare."""
        skill = self._workshop.skills.get(ranked.skill)
        announced = () if skill is None else skill.expects
        others = [e for e in announced if ranked.expected is None or e.metric != "run.latency_ms"]
        own = [] if ranked.expected is None else [f"run.latency_ms down x{ranked.expected:.3g}"]
        return "; ".join([*own, *(f"{e.metric} {e.direction} x{e.factor:g}" for e in others)])


def _promise(ranked: RankedSkill, site: Site) -> float:
    """Return how many times as fast a move may make the base: by its place, else by its skill."""
    return site.gain if site.gain != 1.0 else ranked.expected or 1.0


def _site_moves(
    ranked: RankedSkill, site: Site, expects: str, proven: Sequence[Mapping[str, ParamValue]]
) -> Iterator[tuple[float, Move]]:
    """Yield the moves at a site; values that admitted findings recommend come before all others."""
    ordered = sorted(site_params(site), key=lambda params: params not in proven)
    for position, params in enumerate(ordered):
        score = ranked.score * site.gain * LATER_VALUE_DISCOUNT**position
        reason = ranked.reasons[0] if ranked.reasons else ""
        yield (
            score,
            Move(
                skill=ranked.skill,
                region=site.region,
                params=params,
                why=f"{site.why} ({reason})" if reason else site.why,
                expects=expects,
            ),
        )

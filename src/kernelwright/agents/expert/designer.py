"""The expert Designer: the untried moves on the base, rated by analysis and by what the ledger measured."""

import math
from collections.abc import Iterable
from dataclasses import replace

from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.expert.planner import ExpertPlanner
from kernelwright.agents.expert.static_facts import static_analysis
from kernelwright.agents.roles import Analysis, Design, Experiment, Situation
from kernelwright.core.plan import Move
from kernelwright.ir.plan_lowering import sites
from kernelwright.skills.ranking import PRIOR_TRIES
from kernelwright.skills.stats import SkillStats

PRIOR_SPREAD = 0.15
"""Standard deviation of a move's log-speedup before any was measured; our choice."""


class ExpertDesigner:
    """Fills the Designer's seat.

    On timings alone it ranks by what is known without a profile: the graph, the sites with their analytic
    gains, and the ledger. Where the recipe has an analysis, that one is used.
    """

    def __init__(self, workshop: PlanLowering, planner: ExpertPlanner) -> None:
        self._workshop = workshop
        self._planner = planner

    def design(self, situation: Situation, avenues: int, experiments: int) -> Design:
        """Return the best untried skills as avenues, and their best moves as rated experiments.

        One move a skill first, best skill first, so that experiments differ; further moves of the same
        skills fill up.
        """
        if situation.base is None:
            return Design((), ())
        analysis = self._analysis(situation)
        untried = self._planner.untried(replace(situation, analysis=analysis))
        ordered = _skills_apart(untried)
        skills = dict.fromkeys(move.skill for move in ordered)
        return Design(
            avenues=tuple(self._avenue(skill, analysis) for skill in skills)[:avenues],
            experiments=tuple(self._rated(situation, analysis, move) for move in ordered[:experiments]),
        )

    def _analysis(self, situation: Situation) -> Analysis:
        assert situation.base is not None
        if situation.analysis is not None and not situation.timings_only:
            return situation.analysis
        plan = situation.base.candidate.plan
        return static_analysis(self._workshop, situation.problem, plan, situation.ledger)

    def _avenue(self, skill: str, analysis: Analysis) -> str:
        reasons = next((ranked.reasons for ranked in analysis.ranked if ranked.skill == skill), ())
        known = self._workshop.skills.get(skill)
        return ": ".join((skill, *((known.summary,) if known else ()), *reasons[:1]))

    def _rated(self, situation: Situation, analysis: Analysis, move: Move) -> Experiment:
        diagnosis = analysis.diagnosis
        stats = situation.ledger.stats(move.skill, diagnosis.structure, diagnosis.bottleneck)
        expected = next((r.expected for r in analysis.ranked if r.skill == move.skill), None)
        low, high = self._log_gains(situation, move, stats, expected or 1.0)
        return Experiment(
            move=move,
            gain_low=1 - math.exp(-low),
            gain_high=1 - math.exp(-high),
            innovation=1 / (1 + stats.tries + _uses(situation, move.skill)),
        )

    def _log_gains(
        self, situation: Situation, move: Move, stats: SkillStats, expected: float
    ) -> tuple[float, float]:
        """Return the expected log-speedup less and plus one standard deviation.

        The expectation before any measurement (the site's analytic gain, or where that says nothing what is
        expected of the skill on this task) counts as PRIOR_TRIES tries, as in the gate's ranking. The low end
        may be a slow-down.
        """
        analytic = math.log(max(self._site_gain(situation, move), 1.0))
        prior = analytic or math.log(expected)
        tries = PRIOR_TRIES + stats.tries
        mean = (PRIOR_TRIES * prior + stats.tries * stats.mean_log_speedup) / tries
        variance = (PRIOR_TRIES * PRIOR_SPREAD**2 + stats.tries * stats.spread**2) / tries
        return mean - math.sqrt(variance), mean + math.sqrt(variance)

    def _site_gain(self, situation: Situation, move: Move) -> float:
        assert situation.base is not None
        lowering = self._workshop.lowering_of.get(move.skill, "")
        carried = self._workshop.carried(situation.problem, situation.base.candidate.plan)
        return max((s.gain for s in sites(carried, lowering) if s.region == move.region), default=1.0)


def _skills_apart(moves: Iterable[Move]) -> tuple[Move, ...]:
    """Return the moves with each skill's first one ahead of all second ones, and so on."""
    rounds: list[tuple[int, Move]] = []
    seen: dict[str, int] = {}
    for move in moves:
        seen[move.skill] = seen.get(move.skill, 0) + 1
        rounds.append((seen[move.skill], move))
    return tuple(move for _, move in sorted(rounds, key=lambda pair: pair[0]))


def _uses(situation: Situation, skill: str) -> int:
    """Return how often this run has used a skill, as far as the Designer is shown it."""
    assert situation.base is not None
    base = situation.base.candidate
    tried = [attempt.move for attempt in situation.memory.tried(base.id)]
    carried = [move for node in situation.window for move in node.candidate.plan.moves]
    return sum(move.skill == skill for move in (*base.plan.moves, *tried, *carried))

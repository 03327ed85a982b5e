"""Which skills have a place to act on, and what each may gain there: asked of the space, not of the skill."""

from collections.abc import Iterator, Mapping

from kernelwright.agents.expert.extend import GENERATE, extend
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Analysis
from kernelwright.core.evidence import Evidence, FactValue
from kernelwright.core.plan import Move, Plan
from kernelwright.ir.acted_on import places
from kernelwright.ir.plan_lowering import LoweredPlan, gain_at, sites
from kernelwright.skills.diagnosis import diagnose
from kernelwright.skills.ranking import Gains, rank
from kernelwright.skills.stats import LedgerView
from kernelwright.targets.registry import target_of

SITES_ESTIMATED = 2
"""Most promising places of an edit that the cost model is asked about; ours."""


def judged(
    workshop: PlanLowering,
    problem: Problem,
    plan: Plan,
    facts: Mapping[str, FactValue],
    ledger: LedgerView,
) -> Analysis:
    """Return facts as evidence, what they say is the bottleneck, and the skills that answer it on a plan."""
    evidence = Evidence(facts=dict(facts))
    diagnosis = diagnose(evidence)
    gains = acting_skills(workshop, problem, plan)
    ranked = rank(workshop.skills, evidence, diagnosis, str(problem.target), ledger, gains)
    return Analysis(evidence=evidence, diagnosis=diagnosis, ranked=ranked)


def acting_skills(lowering: PlanLowering, problem: Problem, plan: Plan) -> Gains | None:
    """Return the skills that can act on a plan's program, or on its generated code, with what each may gain.

    A plan of library calls is one move away from generated code, on which most skills act. The gain of an
    edit is that of its best place by the cost model. Guidance has the places that its file names. So
    has an edit in a language that we do not write. What these may gain nobody can tell: None.

    None for a task that could not be captured: there is no program to ask.
    """
    if problem.main_workload not in problem.captured:
        return None
    target = target_of(problem.target)
    known = lowering.lowerings(problem)
    generated = extend(plan, Move(skill=GENERATE))
    bases = [lowering.carried(problem, one) for one in ([plan] if plan == generated else [plan, generated])]
    found: dict[str, float | None] = {}
    for skill in lowering.skills.values():
        if str(problem.target) not in skill.targets:
            continue
        if skill.name in known:
            gains = [gain for base in bases for gain in _gains(base, known[skill.name])]
            if gains:
                found[skill.name] = max(gains)
        elif (skill.lowering is None or target.writer is None) and (
            skill.acts_on is None or any(places(base, skill.acts_on) for base in bases)
        ):
            found[skill.name] = None
    return found


def _gains(base: LoweredPlan, lowering: str) -> Iterator[float]:
    return (gain_at(base, lowering, site) for site in sites(base, lowering)[:SITES_ESTIMATED])

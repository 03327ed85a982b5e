"""What is known of a plan's program without running it: an Analysis for recipes that have timings alone."""

from kernelwright.agents.expert.analyst import contract_facts, task_facts
from kernelwright.agents.expert.applicable import judged
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Analysis
from kernelwright.core.evidence import FactValue
from kernelwright.core.plan import Plan
from kernelwright.ir.facts import program_facts
from kernelwright.ir.plan_lowering import sites
from kernelwright.skills.stats import LedgerView


def static_analysis(workshop: PlanLowering, problem: Problem, plan: Plan, ledger: LedgerView) -> Analysis:
    """Return evidence, diagnosis and ranking from the graph, the program and the machine's rates alone.

    Nothing of it was measured on a candidate: no latency, no compiler report, no counter. Without a latency
    the diagnosis never says that the floor is reached, so something is always ranked.
    """
    carried = workshop.carried(problem, plan)
    facts: dict[str, FactValue] = problem.machine.facts()
    facts.update(program_facts(carried.captured, carried.program))
    rewrites = [low for low in workshop.lowerings(problem).values() if low.startswith("rewrite:")]
    gains = (site.gain for low in rewrites for site in sites(carried, low))
    facts["graph.rewrite_gain"] = max(gains, default=1.0)
    facts.update(contract_facts(problem))
    if problem.main_floor is not None:
        facts.update(task_facts(problem.main_floor, problem.peaks))
    return judged(workshop, problem, plan, facts, ledger)

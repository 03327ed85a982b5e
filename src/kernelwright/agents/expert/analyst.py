"""The expert Analyst: from an evaluation and a lowered program to a diagnosis and ranked skills."""

from kernelwright.agents.expert.applicable import judged
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Analysis
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, WorkloadResult
from kernelwright.core.evidence import FactValue
from kernelwright.core.roofline import Floor, Peaks
from kernelwright.ir.facts import program_facts
from kernelwright.ir.plan_lowering import LoweredPlan, sites
from kernelwright.skills.stats import LedgerView
from kernelwright.targets.registry import target_of


class ExpertAnalyst:
    """Fills the Analyst's seat by measurement and the gate."""

    def __init__(self, workshop: PlanLowering) -> None:
        self._workshop = workshop

    def analyse(
        self, problem: Problem, base: Candidate, evaluation: Evaluation, ledger: LedgerView
    ) -> Analysis:
        """Return evidence, diagnosis and ranking (see roles.Analyst)."""
        carried = self._workshop.carried(problem, base.plan)
        facts: dict[str, FactValue] = problem.machine.facts()
        facts.update(program_facts(carried.captured, carried.program))
        if evaluation.library_calls == {}:  # whatever its plan says, it computes everything itself
            facts["graph.anchor_flops_fraction"] = 0.0
        facts["graph.rewrite_gain"] = self._rewrite_gain(problem, carried)
        facts.update(contract_facts(problem))
        facts.update(evaluation.facts)
        floor = problem.main_floor
        if floor is not None:
            facts.update(task_facts(floor, problem.peaks))
        if evaluation.results:
            facts.update(run_facts(evaluation.results[0], floor, problem.peaks))
        return judged(self._workshop, problem, base.plan, facts, ledger)

    def _rewrite_gain(self, problem: Problem, carried: LoweredPlan) -> float:
        """Return the largest analytic gain of any rewrite that still applies, 1.0 when none does."""
        lowerings = self._workshop.lowerings(problem).values()
        rewrites = [low for low in lowerings if low.startswith("rewrite:")]
        return max((site.gain for low in rewrites for site in sites(carried, low)), default=1.0)


def task_facts(floor: Floor, peaks: Peaks) -> dict[str, FactValue]:
    """Return the ``task.*`` facts that the floor implies."""
    work = floor.work
    return {
        "task.flops": work.flops,
        "task.min_bytes": work.min_bytes,
        "task.intensity": work.intensity,
        "task.bound_by": floor.bound_by,
        "task.floor_ms": floor.ms,
        "task.ridge": peaks.fma_gflops / peaks.bandwidth_at(work.min_bytes),
        "task.working_set_fits_cache": work.min_bytes <= peaks.cache_bytes,
    }


def contract_facts(problem: Problem) -> dict[str, FactValue]:
    """Return what the task allows, where a skill asks for it: on devices whose products may be less exact."""
    rounds = target_of(problem.target).device.rounds_products
    return {"task.tolerance": str(problem.task.tolerance)} if rounds else {}


def run_facts(result: WorkloadResult, floor: Floor | None, peaks: Peaks) -> dict[str, FactValue]:
    """Return the ``run.*`` facts of one workload's timings."""
    latency_ms = result.candidate.median_ms
    facts: dict[str, FactValue] = {"run.latency_ms": latency_ms, "run.floor_fraction": result.floor_fraction}
    for baseline, metric in (("eager", "run.speedup_eager"), ("torch_compile", "run.speedup_compile")):
        speedup = result.speedup(baseline)
        if speedup is not None:
            facts[metric] = speedup.ratio
    if floor is not None and latency_ms > 0:
        bandwidth = floor.work.min_bytes / latency_ms / 1e6
        facts["run.bandwidth_gbps"] = bandwidth
        facts["run.bandwidth_fraction"] = bandwidth / peaks.bandwidth_at(floor.work.min_bytes)
        facts["run.fma_fraction"] = floor.work.flops / latency_ms / 1e6 / peaks.fma_gflops
    return facts

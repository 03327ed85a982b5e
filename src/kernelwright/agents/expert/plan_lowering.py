"""Lowers plans to programs and source for the expert team, and caches what it has lowered."""

from kernelwright.agents.problem import Problem
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError
from kernelwright.core.plan import Move, Plan
from kernelwright.core.skill import Skill
from kernelwright.core.task import TolerancePolicy
from kernelwright.ir.edits import Gpu
from kernelwright.ir.program import Region
from kernelwright.targets.plan_lowering import LIBRARY_SEED, Carried, carry_out, write_source
from kernelwright.targets.printers import PRINTERS, reading_language

LIBRARY_MOVE = Move(skill="library-seed", why="every operator as torch calls it: correct first")
"""The seed that changes nothing but the interpreter's overhead."""

LOWERS_PRECISION = frozenset({"schedule:triton-precision"})
LOOSE = frozenset({TolerancePolicy.TF32, TolerancePolicy.BF16})
"""Tolerances under which inputs of products may be rounded to TF32."""


class Workshop:
    """Gives the expert roles lowered plans, each lowered once."""

    def __init__(self, skills: dict[str, Skill]) -> None:
        self.skills = skills
        self.lowering_of = {s.name: s.lowering for s in skills.values() if s.lowering is not None}
        self.lowering_of[LIBRARY_MOVE.skill] = f"fusion:{LIBRARY_SEED}"
        self._carried: dict[tuple[str, str, str, str], Carried] = {}

    def lowerings(self, problem: Problem) -> dict[str, str]:
        """Return skill or repair -> lowering of what may be done on this target, in the library's order.

        An edit that lowers precision is among them only where the task's tolerance names that precision; in a
        language that we do not write there are no schedules.
        """
        target = str(problem.target)
        return {
            name: lowering
            for name, lowering in self.lowering_of.items()
            if (name not in self.skills or target in self.skills[name].targets)
            and (lowering not in LOWERS_PRECISION or problem.task.tolerance in LOOSE)
            and (problem.target.language in PRINTERS or not lowering.startswith("schedule:"))
        }

    def carried(self, problem: Problem, plan: Plan, workload: str | None = None) -> Carried:
        """Return the lowered program of a plan on one workload (default: the main one)."""
        name = workload or problem.main_workload
        key = (problem.task.id, str(problem.target), plan.id, name)
        if key not in self._carried:
            self._carried[key] = carry_out(
                problem.captured[name],
                plan,
                self.lowering_of,
                reading_language(problem.target.language),
                _gpu_of(problem),
            )
        return self._carried[key]

    def candidate(self, problem: Problem, plan: Plan, *, parents: tuple[str, ...], role: str) -> Candidate:
        """Print the candidate that carries out a plan on every workload.

        A move that fits the main workload but not another one is left out there: shapes differ. Raises
        LoweringError where kernels would have to be written in a language that we do not write.
        """
        carried = {problem.main_workload: self.carried(problem, plan)}
        for workload in problem.task.workloads[1:]:
            carried[workload.name] = self._carried_where_possible(problem, plan, workload.name)
        language = problem.target.language
        steps = (step for done in carried.values() for step in done.program.steps)
        if language not in PRINTERS and any(isinstance(step, Region) for step in steps):
            raise LoweringError(f"the expert writes no kernels in {language!r}; a model Coder may")
        source = write_source(problem.task, carried, plan)
        given_up = {name: why for name, done in carried.items() if (why := done.program.given_up)}
        return Candidate(
            source=source, target=problem.target, parents=parents, plan=plan, role=role, given_up=given_up
        )

    def _carried_where_possible(self, problem: Problem, plan: Plan, workload: str) -> Carried:
        kept = Plan()
        for move in plan.moves:
            try:
                self.carried(problem, kept.then(move), workload)
            except LoweringError:
                continue
            kept = kept.then(move)
        return self.carried(problem, kept, workload)


def _gpu_of(problem: Problem) -> Gpu:
    """Return what lowerings may know of the GPU, as far as the problem says it."""

    def number(fact: str, unit: float) -> float | None:
        value = problem.machine.get(fact)
        return value * unit if isinstance(value, int | float) else None

    units = problem.machine.get("gpu.units")
    return Gpu(
        device=problem.target.device,
        units=units if isinstance(units, int) else None,
        fp32_flops=number("machine.fp32_gflops", 1e9),
        bandwidth=number("machine.bandwidth_gbps", 1e9),
    )

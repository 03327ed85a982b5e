"""Lowers plans to programs and source for the expert team, and caches what it has lowered."""

from kernelwright.agents.problem import Problem
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import Machine
from kernelwright.core.plan import Move, Plan
from kernelwright.core.skill import Skill
from kernelwright.ir.plan_lowering import LIBRARY_SEED, LoweredPlan, lower_plan, write_source
from kernelwright.ir.program import Region
from kernelwright.targets.registry import target_of

LIBRARY_MOVE = Move(skill="library-seed", why="every operator as torch calls it: correct first")
"""The seed that changes nothing but the interpreter's overhead."""


class PlanLowering:
    """Gives the expert roles lowered plans, each lowered once."""

    def __init__(self, skills: dict[str, Skill]) -> None:
        self.skills = skills
        self.lowering_of = {s.name: s.lowering for s in skills.values() if s.lowering is not None}
        self.lowering_of[LIBRARY_MOVE.skill] = f"fusion:{LIBRARY_SEED}"
        self._carried: dict[tuple[str, str, Machine, str, str], LoweredPlan] = {}

    def lowerings(self, problem: Problem) -> dict[str, str]:
        """Return skill or repair -> lowering of what may be done on this target, in the library's order.

        An edit that lowers precision is among them only where the task's tolerance names that precision; in a
        language that we do not write there are no schedules.
        """
        target = str(problem.target)
        own = target_of(problem.target)
        may_round = problem.task.tolerance.may_round
        return {
            name: lowering
            for name, lowering in self.lowering_of.items()
            if (name not in self.skills or target in self.skills[name].targets)
            and (may_round or lowering not in own.lowering.loosens)
            and (own.writer is not None or not lowering.startswith("schedule:"))
        }

    def carried(self, problem: Problem, plan: Plan, workload: str | None = None) -> LoweredPlan:
        """Return the lowered program of a plan on one workload (default: the main one)."""
        name = workload or problem.main_workload
        key = (problem.task.id, str(problem.target), problem.machine, plan.id, name)
        if key not in self._carried:
            shorter = (Plan(moves=plan.moves[:n]) for n in reversed(range(len(plan.moves))))
            known = ((one, self._carried.get((*key[:3], one.id, name))) for one in shorter)
            self._carried[key] = lower_plan(
                problem.captured[name],
                plan,
                self.lowering_of,
                target_of(problem.target).lowering,
                problem.machine,
                next(((one, done) for one, done in known if done is not None), None),
            )
        return self._carried[key]

    def candidate(self, problem: Problem, plan: Plan, *, parents: tuple[str, ...], role: str) -> Candidate:
        """Print the candidate that carries out a plan on every workload.

        A move that fits the main workload but not another one is left out there: shapes differ. Raises
        LoweringError where kernels would have to be written in a language that we do not write.
        """
        carried = {problem.main_workload: self.carried(problem, plan)}
        others = problem.task.workloads[1:] if not problem.task.dynamic else ()  # one program serves all
        for workload in others:
            carried[workload.name] = self._carried_where_possible(problem, plan, workload.name)
        own = target_of(problem.target)
        has_kernels = any(
            isinstance(step, Region) for done in carried.values() for step in done.program.steps
        )
        write = own.writer if has_kernels else own.library_writer
        if write is None:
            raise LoweringError(
                f"the expert writes no kernels for {str(problem.target)!r}; a model Coder may"
            )
        source = write_source(problem.task, carried, plan, write)
        given_up = {name: why for name, done in carried.items() if (why := done.program.given_up)}
        return Candidate(
            source=source, target=problem.target, parents=parents, plan=plan, role=role, given_up=given_up
        )

    def _carried_where_possible(self, problem: Problem, plan: Plan, workload: str) -> LoweredPlan:
        kept = Plan()
        for move in plan.moves:
            try:
                self.carried(problem, kept.then(move), workload)
            except LoweringError:
                continue
            kept = kept.then(move)
        return self.carried(problem, kept, workload)

"""Plans carried out by the expert: a kernel for a plan, and the moves that may follow."""

from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.problem import Problem
from kernelwright.api.diagnosing import problem_for
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError, TaskError, UserError
from kernelwright.core.frozen import Frozen
from kernelwright.core.plan import ParamValue, Plan
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task
from kernelwright.ir.plan_lowering import sites
from kernelwright.settings import Settings
from kernelwright.skills.load import load_skills


class PossibleMove(Frozen):
    """A place where a skill applies on top of a plan."""

    skill: str
    region: str
    """Name of the region or graph node; a move names it."""
    why: str
    gain: float
    """Analytic guess of old over new latency of the whole program, at least 1."""
    params: dict[str, tuple[ParamValue, ...]]
    """Values worth trying here, best guess first."""


class WrittenPlan(Frozen):
    """A plan carried out."""

    candidate: Candidate
    given_up: dict[str, str]
    """Workload -> why the compiler generated nothing for it, so that all of it runs through torch."""
    moves: tuple[PossibleMove, ...]
    """What may follow, the largest gain first."""


def write_plan(
    task: Task, plan: Plan, target: TargetName, *, settings: Settings | None = None
) -> WrittenPlan:
    """Return the expert's kernel for a plan, and the moves that may follow.

    Raises:
        TaskError: the task cannot be captured to a graph.
        UserError: a move cannot be carried out; the message says where its skill applies.
        MachineError: no compiler to measure the machine's peaks with.
    """
    problem, why = problem_for(task, target, settings)
    if why is not None:
        raise TaskError(f"{task.name}: cannot be captured to a graph, so no plan applies: {why}")
    return plan_written(PlanLowering(load_skills()), problem, plan)


def plan_written(lowering: PlanLowering, problem: Problem, plan: Plan) -> WrittenPlan:
    """Return what ``write_plan`` does of a problem that is captured; raises UserError."""
    kept = Plan()
    for move in plan.moves:
        try:
            lowering.carried(problem, kept.then(move))
        except LoweringError as error:
            found = [one for one in possible_moves(lowering, problem, kept) if one.skill == move.skill]
            where = ", ".join(one.region for one in found) or "nowhere on this plan"
            raise UserError(
                f"move {len(kept.moves) + 1}, {move.key}: {error}; {move.skill} applies at: {where}"
            ) from error
        kept = kept.then(move)
    try:
        candidate = lowering.candidate(problem, plan, parents=(), role="coder")
    except LoweringError as error:
        raise UserError(str(error)) from error
    return WrittenPlan(
        candidate=candidate,
        given_up=dict(candidate.given_up),
        moves=possible_moves(lowering, problem, plan),
    )


def possible_moves(lowering: PlanLowering, problem: Problem, plan: Plan) -> tuple[PossibleMove, ...]:
    """Return every place where a skill applies on top of a plan, the largest gain first."""
    carried = lowering.carried(problem, plan)
    found = [
        PossibleMove(
            skill=skill,
            region=site.region,
            why=site.why,
            gain=site.gain,
            params={name: tuple(values) for name, values in site.params.items()},
        )
        for skill, phase in lowering.lowerings(problem).items()
        if skill in lowering.skills
        for site in sites(carried, phase)
    ]
    return tuple(sorted(found, key=lambda move: (-move.gain, move.skill, move.region)))

"""Evolution of plans: fill a population, cross two plans, revise a failing child (cuPilot).

Source: cuPilot (arXiv 2512.16465): plans are the genome; crossover sees plans and the roofline class, never
code; a Translator makes code of a plan, which is revised in a bounded loop; then the plan is aligned with
what the code really does.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

from kernelwright.agents.roles import Node, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError, UnusableAnswer
from kernelwright.core.plan import Plan
from kernelwright.runs.step_context import StepContext
from kernelwright.runs.steps import StepKind
from kernelwright.runs.steps.mending import Mend
from kernelwright.runs.view import Selection
from kernelwright.runs.windows import FASTEST


@dataclass(frozen=True)
class Populate:
    """Breeder, then for each plan Coder and Aligner.

    Begins every epoch: the first from the vanilla kernel, later ones from the best so far.
    """

    seats: ClassVar[tuple[str, ...]] = ("breeder", "coder")

    def run(self, context: StepContext, selection: Selection) -> None:
        """Hand in up to ``selection.count`` kernels, one a plan that is new."""
        base_id = str(selection.base)
        situation = context.situation(base_id)
        told = replace(situation, window=history(context))
        try:
            plans = context.team.breeder.populate(told, selection.count)
        except UnusableAnswer as error:
            context.note("breeder", str(error))
            return
        plans = plans[: selection.count]
        context.team.coder.expect(situation, [plan for plan in plans if plan.id not in known_plans(context)])
        models = context.spec.models
        is_early = models is not None and models.concurrency > 1  # then the prompts are sent already
        for plan in plans:
            bring_up(context, situation if is_early else context.refreshed(situation), plan, (base_id,))


@dataclass(frozen=True)
class Cross:
    """Breeder on two plans, without any source; then Coder and Aligner."""

    seats: ClassVar[tuple[str, ...]] = ("breeder", "coder")

    def run(self, context: StepContext, selection: Selection) -> None:
        """Hand in the child of two parents; a plan or a kernel that is known makes the step fruitless."""
        first, second = str(selection.base), str(selection.reference)
        situation = context.situation(first)
        blind = replace(situation, base=None, window=history(context))
        try:
            plan = context.team.breeder.cross(blind, context.plan_of(first), context.plan_of(second))
        except UnusableAnswer as error:
            context.note("breeder", str(error))
            return
        if plan is None:
            context.note("breeder", f"{first} and {second} give no plan that differs from both")
            return
        both = replace(situation, window=(context.node(second, "other parent"),))
        bring_up(context, context.refreshed(both), plan, (first, second))


@dataclass(frozen=True)
class Revise:
    """One revision of a failing candidate; its plan is aligned again, a candidate beyond it exhausted."""

    seats: ClassVar[tuple[str, ...]] = ("debugger",)

    repair: StepKind = field(default_factory=lambda: Mend(FASTEST))

    def run(self, context: StepContext, selection: Selection) -> None:
        """Hand in the revision; a failing candidate without one is given up."""
        failing, before = str(selection.base), len(context.state.attempts)
        self.repair.run(context, selection)
        made = context.state.attempts[before:]
        if not made:
            context.exhaust(failing)
        for attempt in made:
            align(context, context.state.candidates[attempt.candidate])


def bring_up(context: StepContext, situation: Situation, plan: Plan, parents: tuple[str, ...]) -> None:
    """Translate a plan, have the kernel judged and align the plan; nothing for what is known already."""
    if plan.id in known_plans(context):
        context.note("breeder", "this plan was carried out already", plan=plan)
        return
    context.note("breeder", describe_plan(plan), plan=plan)
    try:
        written = context.team.coder.translate(situation, plan)
    except LoweringError as error:
        context.note("coder", f"the plan cannot be carried out: {error}", plan=plan)
        return
    if context.is_known(written):
        context.note("coder", f"the plan {context.repetition(written)}", candidate=written.id)
        return
    child = written.model_copy(update={"parents": parents})
    context.submit(child, parents[0])
    align(context, child)


def align(context: StepContext, candidate: Candidate) -> None:
    """Ask what a verified source really does and keep that as its plan; a failing one keeps its own."""
    if not context.state.evaluations[candidate.id].is_verified:
        return
    try:
        plan = context.team.aligner.align(context.situation(candidate.id, is_analysed=False), candidate)
    except UnusableAnswer as error:
        context.note("aligner", str(error), candidate=candidate.id)
        return
    context.state.aligned[candidate.id] = plan
    context.note("aligner", describe_plan(plan), candidate=candidate.id, plan=plan)


def history(context: StepContext) -> tuple[Node, ...]:
    """Return every kernel's plan, as aligned, with its verdict, and without its source."""
    state = context.state
    return tuple(
        Node(state.candidates[known].without_source(context.plan_of(known)), evaluation, "member")
        for known, evaluation in state.evaluations.items()
    )


def known_plans(context: StepContext) -> frozenset[str]:
    """Return the ids of all plans that have a kernel, as announced and as aligned."""
    candidates = context.state.candidates
    announced = {candidate.plan.id for candidate in candidates.values()}
    return frozenset(announced | {context.plan_of(candidate_id).id for candidate_id in candidates})


def describe_plan(plan: Plan) -> str:
    """Return the keys of the moves in one line."""
    return "; ".join(move.key for move in plan.moves) or "no move: the graph as it is fused by default"

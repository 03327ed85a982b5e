"""Evolution of plans: fill a population, cross two plans, revise a failing child (cuPilot).

Source: cuPilot (arXiv 2512.16465): plans are the genome; crossover sees plans and the roofline class, never
code; a Translator makes code of a plan, which is revised in a bounded loop; then the plan is aligned with
what the code really does.
"""

from dataclasses import dataclass, field, replace

from kernelwright.agents.roles import Node, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError, UnusableAnswer
from kernelwright.core.plan import Plan
from kernelwright.runs.step_context import Desk
from kernelwright.runs.steps import Pipeline
from kernelwright.runs.steps.mending import Repair
from kernelwright.runs.view import Selection


@dataclass(frozen=True)
class Populate:
    """Breeder, then for each plan Coder and Aligner.

    Begins every epoch: the first from the vanilla kernel, later ones from the best so far.
    """

    def run(self, desk: Desk, selection: Selection) -> None:
        """Hand in up to ``selection.count`` kernels, one a plan that is new."""
        base_id = str(selection.base)
        situation = replace(desk.situation(base_id), window=history(desk))
        try:
            plans = desk.team.breeder.populate(situation, selection.count)
        except UnusableAnswer as error:
            desk.note("breeder", str(error))
            return
        for plan in plans[: selection.count]:
            bring_up(desk, situation, plan, (base_id,))


@dataclass(frozen=True)
class Cross:
    """Breeder on two plans, without any source; then Coder and Aligner."""

    def run(self, desk: Desk, selection: Selection) -> None:
        """Hand in the child of two parents; a plan or a kernel that is known makes the step fruitless."""
        first, second = str(selection.base), str(selection.reference)
        situation = desk.situation(first)
        blind = replace(situation, base=None, window=history(desk))
        try:
            plan = desk.team.breeder.cross(blind, desk.plan_of(first), desk.plan_of(second))
        except UnusableAnswer as error:
            desk.note("breeder", str(error))
            return
        if plan is None:
            desk.note("breeder", f"{first} and {second} give no plan that differs from both")
            return
        bring_up(desk, situation, plan, (first, second))


@dataclass(frozen=True)
class Revise:
    """One revision of a failing candidate; its plan is aligned again, a candidate beyond it exhausted."""

    repair: Pipeline = field(default_factory=Repair)

    def run(self, desk: Desk, selection: Selection) -> None:
        """Hand in the revision; a failing candidate without one is given up."""
        failing, before = str(selection.base), len(desk.state.attempts)
        self.repair.run(desk, selection)
        made = desk.state.attempts[before:]
        if not made:
            desk.exhaust(failing)
        for attempt in made:
            align(desk, desk.state.candidates[attempt.candidate])


def bring_up(desk: Desk, situation: Situation, plan: Plan, parents: tuple[str, ...]) -> None:
    """Translate a plan, have the kernel judged and align the plan; nothing for what is known already."""
    if plan.id in known_plans(desk):
        desk.note("breeder", "this plan was carried out already", plan=plan)
        return
    desk.note("breeder", describe_plan(plan), plan=plan)
    try:
        written = desk.team.coder.translate(situation, plan)
    except LoweringError as error:
        desk.note("coder", f"the plan cannot be carried out: {error}", plan=plan)
        return
    if desk.is_known(written):
        desk.note("coder", f"the plan {desk.repetition(written)}", candidate=written.id)
        return
    child = written.model_copy(update={"parents": parents})
    desk.submit(child, parents[0])
    align(desk, child)


def align(desk: Desk, candidate: Candidate) -> None:
    """Ask what a verified source really does and keep that as its plan; a failing one keeps its own."""
    if not desk.state.evaluations[candidate.id].is_verified:
        return
    try:
        plan = desk.team.aligner.align(desk.situation(candidate.id, is_analysed=False), candidate)
    except UnusableAnswer as error:
        desk.note("aligner", str(error), candidate=candidate.id)
        return
    desk.state.aligned[candidate.id] = plan
    desk.note("aligner", describe_plan(plan), candidate=candidate.id, plan=plan)


def history(desk: Desk) -> tuple[Node, ...]:
    """Return every kernel's plan, as aligned, with its verdict, and without its source."""
    state = desk.state
    return tuple(
        Node(state.candidates[known].without_source(desk.plan_of(known)), evaluation, "member")
        for known, evaluation in state.evaluations.items()
    )


def known_plans(desk: Desk) -> frozenset[str]:
    """Return the ids of all plans that have a kernel, as announced and as aligned."""
    candidates = desk.state.candidates
    announced = {candidate.plan.id for candidate in candidates.values()}
    return frozenset(announced | {desk.plan_of(candidate_id).id for candidate_id in candidates})


def describe_plan(plan: Plan) -> str:
    """Return the keys of the moves in one line."""
    return "; ".join(move.key for move in plan.moves) or "no move: the graph as it is fused by default"

"""A generation of designed experiments on a member of the population (GPU Kernel Scientist)."""

from dataclasses import dataclass, replace
from typing import ClassVar

from kernelwright.agents.roles import Choice, Design, Node, Pick, Situation
from kernelwright.core.errors import LoweringError, UnusableAnswer
from kernelwright.core.plan import Move
from kernelwright.runs.step_context import StepContext
from kernelwright.runs.steps.experiment_choice import running_order
from kernelwright.runs.view import Selection
from kernelwright.runs.windows import NodeWindow

MEMBERS = NodeWindow(("members",))


@dataclass(frozen=True)
class Experiments:
    """Selector, Designer, Coder; evaluated one after the other, on timings alone.

    Source: GPU Kernel Scientist (arXiv 2506.20807): ten avenues, five experiments. How a failing child is
    treated is not known; ours stays in the population with its status and is never a base.
    """

    seats: ClassVar[tuple[str, ...]] = ("selector", "designer", "coder")

    avenues: int = 10
    experiments: int = 5

    def run(self, context: StepContext, selection: Selection) -> None:
        """Hand in up to ``selection.count`` experiments; a base for which none is designed is exhausted."""
        pick = self._pick(context)
        if pick is None:
            return
        situation = self._situation(context, pick)
        try:
            design = context.team.designer.design(situation, self.avenues, self.experiments)
        except UnusableAnswer as error:
            context.note("designer", str(error), candidate=pick.base)
            return
        except LoweringError:
            design = Design((), ())  # an expert Designer on a base that was written in words
        context.note("designer", describe_design(design), candidate=pick.base)
        if not design.experiments:
            context.exhaust(pick.base)
        self._carry_out(context, situation, _distinct_moves(design), selection.count)

    def _pick(self, context: StepContext) -> Pick | None:
        """Return the Selector's pick, put right where it is no fit one; None without any base."""
        members = population(context)
        if not any(may_be_base(node) for node in members):
            return None
        told = context.situation(None, is_analysed=False, timings_only=True)
        try:
            pick = context.team.selector.select(replace(told, window=members))
        except UnusableAnswer as error:
            context.note("selector", str(error))
            return None
        if pick is None:
            return None
        fit = _fitting(pick, members)
        text = f"base {fit.base}, reference {fit.reference}: {fit.why}"
        context.note("selector", text, candidate=fit.base)
        return fit

    def _situation(self, context: StepContext, pick: Pick) -> Situation:
        """Return what Designer and Coder are told: base, reference and the fastest, without any analysis."""
        seen = () if pick.reference == pick.base else (context.node(pick.reference, "reference"),)
        told = context.situation(pick.base, is_analysed=False, timings_only=True)
        return context.refreshed(replace(told, window=seen))

    def _carry_out(self, context: StepContext, situation: Situation, design: Design, count: int) -> None:
        """Run the picked experiments; one that comes to no new kernel is replaced by the next in order."""
        done = 0
        for experiment in running_order(design.experiments):
            if done >= count:
                return
            done += self._is_carried_out(context, context.refreshed(situation), experiment.move)

    def _is_carried_out(self, context: StepContext, situation: Situation, move: Move) -> bool:
        assert situation.base is not None
        base_id = situation.base.candidate.id
        choice = Choice(move)
        context.choose(base_id, choice, None)
        try:
            written = context.team.coder.write(situation, choice)
        except LoweringError as error:
            context.fail(base_id, move, str(error))
            return False
        if context.is_known(written):
            context.fail(base_id, move, context.repetition(written))
            return False
        parents = (base_id, *(n.candidate.id for n in situation.window if n.relation == "reference"))
        context.submit(written.model_copy(update={"parents": parents}), base_id)
        return True


def population(context: StepContext) -> tuple[Node, ...]:
    """Return all members; one that has no experiment left is shown as a possible ``reference`` only."""
    members = context.window(None, MEMBERS)
    return tuple(
        replace(node, relation="reference") if node.candidate.id in context.state.exhausted else node
        for node in members
    )


def may_be_base(node: Node) -> bool:
    """Tell whether a member of the population may be experimented on."""
    return node.relation == "member" and node.evaluation.is_verified


def _fitting(pick: Pick, members: tuple[Node, ...]) -> Pick:
    """Put the fastest for a base that may not be one, and the base for a failing reference."""
    bases = [node for node in members if may_be_base(node)]
    if pick.base not in {node.candidate.id for node in bases}:
        fastest = max(bases, key=lambda node: node.evaluation.geomean_speedup() or 0.0)
        why = f"{pick.base} is failing, exhausted or unknown, the fastest stands in. {pick.why}"
        pick = replace(pick, base=fastest.candidate.id, why=why)
    if pick.reference not in {node.candidate.id for node in members if node.evaluation.is_verified}:
        pick = replace(pick, reference=pick.base)
    return pick


def describe_design(design: Design) -> str:
    """Return avenues and rated experiments, a line each."""
    lines = [f"avenue: {avenue}" for avenue in design.avenues]
    for e in design.experiments:
        gain = f"{100 * e.gain_low:.0f} to {100 * e.gain_high:.0f} %"
        lines.append(f"experiment: {e.move.key}: gain {gain}, innovation {e.innovation:.2f}")
    return "\n".join(lines)


def _distinct_moves(design: Design) -> Design:
    apart = {experiment.move.key: experiment for experiment in reversed(design.experiments)}
    return replace(design, experiments=tuple(reversed(apart.values())))

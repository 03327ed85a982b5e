"""Carry out a plan: rewrites on the graph, fusion, schedules, then the printed candidate."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import UNKNOWN_MACHINE, Machine
from kernelwright.core.plan import Move, ParamValue, Plan
from kernelwright.core.task import Task
from kernelwright.ir.edits import FieldEdit, FusionOptions, Site
from kernelwright.ir.fusion_edits import FUSION_EDITS, OWN_PRODUCT, OWN_RECURRENCE
from kernelwright.ir.lower.family import lower_family
from kernelwright.ir.lowering import Lowering, Write
from kernelwright.ir.program import Program
from kernelwright.ir.rewrites import REWRITES
from kernelwright.tasks.capture import Captured

LIBRARY_SEED = "library"
"""Lowering ``fusion:library``: every operator stays a call of torch."""

VALUES_ESTIMATED = 3
"""Values of a schedule's field that the cost model is asked about at a site; ours."""


@dataclass(frozen=True)
class LoweredPlan:
    """One workload's plan after each phase."""

    captured: Captured
    """After the rewrites."""
    options: FusionOptions
    lowering: Lowering
    """Of the target that the schedules are for."""
    machine: Machine = UNKNOWN_MACHINE
    """What they are for."""
    scheduled: Program | None = None
    """The program after moves that change schedules; None: no move does."""

    @cached_property
    def program(self) -> Program:
        """The program, with default schedules where no move changes one.

        The graph is lowered when this is first read: of most plans on the way to another one nobody asks more
        than whether they apply.
        """
        if self.scheduled is not None:
            return self.scheduled
        return self.lowering.with_schedules(lower_family(self.captured, self.options), self.machine)


def known_lowerings(lowering: Lowering) -> frozenset[str]:
    """Return every ``phase:name`` that a skill may lower to for a target."""
    return frozenset(
        {f"rewrite:{name}" for name in REWRITES if name not in lowering.no_rewrites}
        | {f"fusion:{name}" for name in FUSION_EDITS if name not in _without_kernels(lowering)}
        | {f"fusion:{LIBRARY_SEED}"}
        | {f"schedule:{name}" for name in lowering.edits_for(UNKNOWN_MACHINE)}
    )


def _without_kernels(lowering: Lowering) -> frozenset[str]:
    has = {OWN_PRODUCT: lowering.own_products, OWN_RECURRENCE: lowering.own_recurrences}
    return frozenset(name for name, is_there in has.items() if not is_there)


def known_params(lowering: Lowering) -> dict[str, dict[str, tuple[ParamValue, ...]]]:
    """Return ``schedule:name`` -> its parameter with the values that search takes, where a dimension says."""
    edits = lowering.edits_for(UNKNOWN_MACHINE)
    found = {}
    for name, edit in edits.items():
        if isinstance(edit, FieldEdit) and edit.dimension is not None:
            values = edit.dimension.values
            found[f"schedule:{name}"] = {edit.field: values} if values else {}
    return found


def lower_plan(
    captured: Captured,
    plan: Plan,
    lowering_of: Mapping[str, str],
    lowering: Lowering,
    machine: Machine = UNKNOWN_MACHINE,
    shorter: tuple[Plan, LoweredPlan] | None = None,
) -> LoweredPlan:
    """Apply a plan to one captured workload.

    ``lowering_of`` maps skill names to lowerings; a move may also name its lowering itself. ``lowering`` is
    the target's. ``shorter`` is a plan that this one goes on from, lowered: what it has done already is not
    done again. Raises LoweringError when a move does not apply.
    """
    known = known_lowerings(lowering)
    before, done = shorter if shorter is not None else (Plan(), None)

    def added(phase: str) -> list[tuple[Move, str]]:
        n_done = len(_moves(before, lowering_of, known, phase))
        return _moves(plan, lowering_of, known, phase)[n_done:]

    scheduled = added("schedule")
    if done is None or added("rewrite") or added("fusion"):
        rewritten = captured if done is None else done.captured
        for move, name in added("rewrite"):
            rewritten = rewrite(rewritten, name, _region(move))
        cuts = [(name, _region(move)) for move, name in _moves(plan, lowering_of, known, "fusion")]
        done = lower_cuts(rewritten, cuts, lowering, machine)
        scheduled = _moves(plan, lowering_of, known, "schedule")
    if not scheduled:
        return done
    program, edits = done.program, lowering.edits_for(machine)
    for move, name in scheduled:
        program = edits[name].apply(program, _region(move), move.params)
    return replace(done, scheduled=program)


def rewrite(captured: Captured, name: str, node: str) -> Captured:
    """Return the graph after a rewrite at a node, at every extent that it was captured at."""
    apply = REWRITES[name].apply
    family = tuple((point, apply(member, node)) for point, member in captured.family)
    return replace(apply(captured, node), family=family)


def lower_cuts(
    rewritten: Captured, cuts: Iterable[tuple[str, str]], lowering: Lowering, machine: Machine
) -> LoweredPlan:
    """Lower a rewritten graph after fusion edits, given as (name, graph node), with default schedules."""
    options = FusionOptions()
    for name, node in cuts:
        if name == LIBRARY_SEED:
            options = FusionOptions(enabled=False)
        else:
            options = FUSION_EDITS[name].apply(options, node)
    done = LoweredPlan(captured=rewritten, options=options, lowering=lowering, machine=machine)
    if rewritten.family:
        _ = done.program  # raises where no program serves all extents
    return done


def sites(carried: LoweredPlan, lowering: str) -> tuple[Site, ...]:
    """Return where a lowering applies on top of a carried-out plan; none for an unknown one."""
    phase, _, name = lowering.partition(":")
    if lowering not in known_lowerings(carried.lowering):
        return ()
    edits = carried.lowering.edits_for(carried.machine)
    finders: dict[str, Callable[[], tuple[Site, ...]]] = {
        "rewrite": lambda: REWRITES[name].sites(carried.captured),
        "fusion": lambda: (
            FUSION_EDITS[name].sites(carried.captured, carried.options) if name in FUSION_EDITS else ()
        ),
        "schedule": lambda: edits[name].sites(carried.program),
    }
    return finders[phase]()


def gain_at(carried: LoweredPlan, lowering: str, site: Site) -> float:
    """Return what a lowering may gain at a site, old over new time of the whole program by the cost model.

    Algebra and cuts have it from the work and the traffic that they save. A schedule has it from the target's
    model, at the best of the values that the site would try first; without a model from the site. 1 says that
    the model does not look at what is changed, less that it expects a loss.
    """
    phase, _, name = lowering.partition(":")
    estimate = carried.lowering.estimate_ns
    if phase != "schedule" or estimate is None:
        return site.gain
    edit = carried.lowering.edits_for(carried.machine)[name]
    now, found = estimate(carried.program, carried.machine), []
    for params in islice(site_params(site), VALUES_ESTIMATED):
        with suppress(LoweringError):
            changed = edit.apply(carried.program, site.region, params)
            found.append(now / max(estimate(changed, carried.machine), 1.0))
    return max(found, default=1.0)


def site_params(site: Site) -> Iterator[dict[str, ParamValue]]:
    """Yield the combinations of values worth trying at a site, the best guess first."""
    for values in product(*site.params.values()):
        yield dict(zip(site.params, values, strict=True))


def write_source(task: Task, carried: Mapping[str, LoweredPlan], plan: Plan, write: Write) -> str:
    """Print the candidate for all workloads, in the task's order; ``write`` is their target's."""
    lines = [f"{n}. {move.skill}: {move.why}" for n, move in enumerate(plan.moves, start=1)]
    programs = {name: (done.captured, done.program) for name, done in carried.items()}
    return write(task, programs, "\n".join(lines))


def _moves(
    plan: Plan, lowering_of: Mapping[str, str], known: frozenset[str], phase: str
) -> list[tuple[Move, str]]:
    found = []
    for move in plan.moves:
        lowering = lowering_of.get(move.skill, move.skill)
        if ":" not in lowering:
            raise LoweringError(f"skill {move.skill!r} has no lowering")
        if lowering not in known:
            raise LoweringError(f"skill {move.skill!r}: no lowering named {lowering!r}")
        move_phase, _, name = lowering.partition(":")
        if move_phase == phase:
            found.append((move, name))
    return found


def _region(move: Move) -> str:
    return move.region or ""

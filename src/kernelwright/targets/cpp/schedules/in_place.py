"""An epilogue that writes its result over the library's: no second tensor, and its lines are in cache."""

import dataclasses
from collections.abc import Mapping

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import UNKNOWN_MACHINE, Machine
from kernelwright.core.plan import ParamValue
from kernelwright.ir.by_loops import by_loops
from kernelwright.ir.dag import Dag
from kernelwright.ir.edits import Site
from kernelwright.ir.lower.expressions import loads
from kernelwright.ir.normalise import map_loads
from kernelwright.ir.program import Buffer, BufferRef, Call, CallArg, LoopStage, Program, Region, StoreTo
from kernelwright.ir.regions import find_region, replace_region
from kernelwright.targets.cpp.schedule import schedule_of
from kernelwright.targets.cpp.schedules.region_facts import CppRegionFacts

ANCHORS = frozenset(
    f"torch.ops.aten.{name}.default" for name in ("mm", "addmm", "bmm", "baddbmm", "convolution")
)
"""Calls whose result is new memory in every call."""


class InPlaceEpilogue:
    """The region's output takes over the storage of a temporary that nothing reads afterwards.

    Only where every read of the temporary is at the very element that is written, so that no point
    reads what another has written; where no later loop of the region reads it again; and only over the
    result of a Call, which is new in every call.
    """

    name = "in-place-epilogue"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def sites(self, program: Program) -> tuple[Site, ...]:
        """Return the regions that could write over what they read, largest first."""
        found = []
        for step in program.steps:
            if not isinstance(step, Region):
                continue
            pair = _reusable(step, program)
            if pair is None:
                continue
            old = pair[0]
            megabytes = CppRegionFacts.n_bytes(old) / 1e6
            facts = CppRegionFacts.of(step, program, self._machine)
            why = f"writes {megabytes:.1f} MB to a new tensor though {old.name} of that size dies here"
            found.append(Site(step.name, why, 1.0 + 0.3 * facts.share))
        return tuple(sorted(found, key=lambda site: -site.gain))

    def apply(self, program: Program, region: str, params: Mapping[str, ParamValue]) -> Program:
        """Return the program with the temporary in the place of the region's output."""
        step = find_region(program, region)
        pair = _reusable(step, program)
        if pair is None:
            raise LoweringError(f"{self.name}: region {region} reads no temporary that it could write over")
        old, new = pair
        schedule = dataclasses.replace(schedule_of(step), stream=False)
        over = dataclasses.replace(_stored_over(step, new.name, old.name), schedule=schedule)
        program = replace_region(program, over)
        return _without_buffer(program, new.name, old.name)


def with_results_in_place(program: Program) -> Program:
    """Return the program with every epilogue of a matmul or convolution written over its result.

    Limited to operators that always allocate what they return; the edit is for the other cases.
    """
    edit = InPlaceEpilogue(UNKNOWN_MACHINE)  # where it applies does not depend on the machine
    for name in [step.name for step in program.steps if isinstance(step, Region)]:
        pair = _reusable(find_region(program, name), program)
        if pair is not None and _is_anchor_result(pair[0], program):
            program = edit.apply(program, name, {})
    return program


def _is_anchor_result(buffer: Buffer, program: Program) -> bool:
    return any(
        isinstance(s, Call) and buffer.name in s.results and s.target in ANCHORS for s in program.steps
    )


def _reusable(region: Region, program: Program) -> tuple[Buffer, Buffer] | None:
    """Return (dead temporary, output that can take its storage)."""
    if region.sequence is not None:  # it reads its own results
        return None
    for new, old in _pairs(region):
        if program.buffer(new).kind != "temporary":
            continue
        if _is_made_by_call(new, program):  # written over a library's result already
            continue
        if _fits(program.buffer(old), program.buffer(new), region, program):
            return program.buffer(old), program.buffer(new)
    return None


@by_loops
def _pairs(region: Region) -> tuple[tuple[str, str], ...]:
    """Return (stored, read) buffers of which all reads are at the element that is written."""
    dag = Dag(region)
    actions = [action for group in dag.groups for action in group.actions]
    stores = [a.store for a in actions if a.store is not None]
    loads = [
        n for n in (dag.nodes[i] for i in sorted(dag.needed([a.node for a in actions]))) if n.kind == "load"
    ]
    found = []
    for store in stores:
        if sum(s.buffer == store.buffer for s in stores) != 1:
            continue
        for name in dict.fromkeys(n.name for n in loads):
            own = [n for n in loads if n.name == name]
            same_place = all(n.index == store.index and not n.strides and not n.args for n in own)
            if same_place and not _is_read_later(region, store, name):
                found.append((store.buffer, name))
    return tuple(found)


def _stored_over(region: Region, new: str, old: str) -> Region:
    """Return the region with what it stores in one buffer stored in another."""

    def moved(stage: LoopStage) -> LoopStage:
        stores = tuple(StoreTo(old if t.buffer == new else t.buffer, t.index) for t in stage.stores)
        return dataclasses.replace(stage, stores=stores)

    return dataclasses.replace(region, stages=tuple(map(moved, region.stages)))


def _is_read_later(region: Region, store: StoreTo, name: str) -> bool:
    """True when a loop after the one with the store reads the buffer, once the store has moved to it.

    The moved store splits loops: what reads the buffer no longer shares a loop with what writes it.
    """
    dag = Dag(_stored_over(region, store.buffer, name))
    over = StoreTo(name, store.index)
    at = next(n for n, group in enumerate(dag.groups) if any(a.store == over for a in group.actions))
    later = [action.node for group in dag.groups[at + 1 :] for action in group.actions]
    return any(dag.nodes[i].kind == "load" and dag.nodes[i].name == name for i in dag.needed(later))


def _fits(old: Buffer, new: Buffer, region: Region, program: Program) -> bool:
    alike = (old.shape, old.stride, old.dtype, old.kind) == (new.shape, new.stride, new.dtype, "temporary")
    return alike and _is_fresh(old, program) and not _is_read_elsewhere(old, region, program)


def _is_made_by_call(name: str, program: Program) -> bool:
    return any(isinstance(step, Call) and name in step.results for step in program.steps)


def _is_fresh(buffer: Buffer, program: Program) -> bool:
    """True for the result of a library call that is no view of anything."""
    makers = [s for s in program.steps if isinstance(s, Call) and buffer.name in s.results]
    return len(makers) == 1 and not makers[0].is_view


def _is_read_elsewhere(buffer: Buffer, region: Region, program: Program) -> bool:
    if buffer.name in program.outputs or any(b == buffer.name for _, b in program.mutations):
        return True
    for step in program.steps:
        if isinstance(step, Call):
            if _mentions((*step.args, *(v for _, v in step.kwargs)), buffer.name):
                return True
        elif step.name != region.name and buffer.name in _buffers_read(step):
            return True
    return False


@by_loops
def _buffers_read(region: Region) -> frozenset[str]:
    return frozenset(load.buffer for load in loads(stage.expr for stage in region.stages))


def _mentions(args: tuple[CallArg, ...], name: str) -> bool:
    return any(
        (isinstance(a, BufferRef) and a.buffer == name) or (isinstance(a, tuple) and _mentions(a, name))
        for a in args
    )


def _without_buffer(program: Program, gone: str, instead: str) -> Program:
    """Let every other reader of a buffer read another one."""

    def swap(value: CallArg) -> CallArg:
        if isinstance(value, BufferRef) and value.buffer == gone:
            return BufferRef(instead)
        return tuple(swap(v) for v in value) if isinstance(value, tuple) else value

    steps: list[Call | Region] = []
    for step in program.steps:
        if isinstance(step, Call):
            kwargs = tuple((k, swap(v)) for k, v in step.kwargs)
            steps.append(dataclasses.replace(step, args=tuple(swap(a) for a in step.args), kwargs=kwargs))
        else:
            steps.append(_renamed_loads(step, gone, instead))
    return dataclasses.replace(
        program,
        buffers=tuple(b for b in program.buffers if b.name != gone),
        steps=tuple(steps),
        outputs=tuple(instead if o == gone else o for o in program.outputs),
        mutations=tuple((t, instead if b == gone else b) for t, b in program.mutations),
    )


def _renamed_loads(region: Region, gone: str, instead: str) -> Region:
    if gone not in _buffers_read(region):
        return region
    return map_loads(
        region, lambda load: dataclasses.replace(load, buffer=instead) if load.buffer == gone else load
    )

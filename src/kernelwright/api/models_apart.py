"""A whole model: its blocks are optimised, each kind once, and the model is put together and judged."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cloudpickle
from torch import nn

from kernelwright.agents.expert.generator import ExpertGenerator
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.api import playing, workers
from kernelwright.api.optimizing import OptimizeResult, finish, result_of
from kernelwright.api.starting import Begun, begin
from kernelwright.core.blocks import BlockShare, Composition
from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import CaptureError, LoweringError, MachineError, TaskError
from kernelwright.core.evaluation import Speedup
from kernelwright.core.events import Event, ModelProfiled, ModelTakenApart
from kernelwright.core.places import AsSaved
from kernelwright.core.request import RunRequest
from kernelwright.core.run import RunState
from kernelwright.delivery.making import ExampleCall, calls_of, original_of
from kernelwright.delivery.runtime.compiled import compile_whole
from kernelwright.delivery.runtime.kernel import VerifiedKernel
from kernelwright.runs.holding import held
from kernelwright.runs.loop import RunOutcome
from kernelwright.runs.prepare import prepare
from kernelwright.skills.load import load_skills
from kernelwright.targets.registry import target_of
from kernelwright.tasks.live import task_from_module
from kernelwright.tasks.places import save_task
from kernelwright.whole.blocks import find_blocks
from kernelwright.whole.composing import AS_ONE, compositions
from kernelwright.whole.deciding import MOST_LAYERS, n_layers
from kernelwright.whole.own_process import timed_in_turn
from kernelwright.whole.patching import make_kernels, patch
from kernelwright.whole.printing import print_model
from kernelwright.whole.profiling import TimeProfile, examples, profile
from kernelwright.whole.sharing import share_budget

Tell = Callable[[str], None]
UNFIT = "its kernel cannot be put into the model"


@dataclass(frozen=True)
class _Model:
    """The model that is taken apart."""

    begun: Begun
    original: nn.Module
    """In the task's mode; nobody else's."""
    calls: list[ExampleCall]
    profiled: ModelProfiled
    on_event: Callable[[Event], None]
    progress: bool | None
    tell: Tell


def finish_by_blocks(
    begun: Begun,
    *,
    original: nn.Module | None = None,
    progress: bool | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
    tell: Tell = lambda line: None,
) -> OptimizeResult:
    """Carry the run of a whole model to its end and return what came of it.

    Each kind of block has a run of its own in the same store. An interruption keeps the runs that have ended:
    asked for again or resumed, the model goes on from them. A block that fails is left as it is.

    Args:
        begun: the run of the whole.
        original: the live module; None: a file's is constructed.
        progress: as ``show_run``.
        on_event: called with each event of every run.
        tell: is told in one line what happens next.

    Raises:
        TaskError: the model does not run on its example, or cannot be copied.
        MachineError: the machine failed in some block, and no other one has a kernel; the run can be resumed.
    """
    if begun.is_stored or begun.store.get_run(begun.run_id).state is RunState.FINISHED:
        return result_of(begun, begun.carry_on(on_event), original)
    with workers.closing(begun.evaluator):
        return result_of(begun, _carried_out(begun, original, progress, on_event, tell), original)


def _carried_out(
    begun: Begun,
    original: nn.Module | None,
    progress: bool | None,
    on_event: Callable[[Event], None],
    tell: Tell,
) -> RunOutcome:
    task = begun.spec.task
    own, origin = original_of(task, original)
    with pickled_by_value(own if origin is not None else None):
        calls = calls_of(task, original)
        model = _Model(begun, own, calls, _profiled(begun, own, calls, tell), on_event, progress, tell)
        blocks = _optimise_blocks(model)
    apart, candidates = _compose(model, blocks)
    tell(f"{task.name}: judging {len(candidates)} ways to put it together")
    return playing.put_together(
        begun.run_id,
        candidates,
        apart,
        store=begun.store,
        settings=begun.settings,
        referee=begun.evaluator,
        on_event=on_event,
    )


def _profiled(begun: Begun, own: nn.Module, calls: list[ExampleCall], tell: Tell) -> ModelProfiled:
    """Return where the time goes and which blocks have ended, as the run has it or as it is now."""
    recorded = (stored.event for stored in begun.store.iter_events(begun.run_id, kinds=["model_profiled"]))
    known = [event for event in recorded if isinstance(event, ModelProfiled)]
    if known:
        return known[-1]
    tell(f"{begun.spec.task.name}: looking where its time goes")
    found = profile(own, calls)
    blocks = tuple(
        BlockShare(
            name=type(own.get_submodule(kind.paths[0])).__name__,
            paths=kind.paths,
            before_ms=kind.ms,
            share=min(kind.ms / found.total_ms, 1.0),
        )
        for kind in find_blocks(found.parts)
    )
    profiled = ModelProfiled(total_ms=found.total_ms, blocks=blocks)
    _record(begun, profiled)
    return profiled


def _record(begun: Begun, profiled: ModelProfiled) -> None:
    with held(begun.store, begun.run_id):
        begun.store.append_event(begun.run_id, profiled)


def _optimise_blocks(model: _Model) -> list[BlockShare]:
    """Return what became of each kind of block; each that ends is recorded with the model's run."""
    request = model.begun.request
    assert request is not None
    blocks = list(model.profiled.blocks)
    parts = share_budget(request.budget, [block.share for block in blocks])
    failures: dict[int, MachineError] = {}
    for number, (block, budget) in enumerate(zip(model.profiled.blocks, parts, strict=True)):
        if block.has_ended:
            continue
        if budget is None:
            note = "too small a share of the time for the budget"
            blocks[number] = block.model_copy(update={"note": note})
            continue
        model.tell(
            f"block {number + 1} of {len(blocks)}: {block.name}, {len(block.paths)} times, "
            f"{100 * block.share:.0f} % of the time"
        )
        try:
            blocks[number] = _optimise_block(model, request, block, budget)
        except (TaskError, CaptureError, LoweringError) as error:
            blocks[number] = block.model_copy(update={"note": str(error)})
        except MachineError as error:
            failures[number] = error  # not recorded: a run that is carried on tries it again
            continue
        _record(model.begun, model.profiled.model_copy(update={"blocks": tuple(blocks)}))
    if failures and all(block.candidate is None for block in blocks):
        raise next(iter(failures.values()))
    for number, failure in failures.items():
        note = f"the machine failed: {failure}; --again measures anew"
        blocks[number] = blocks[number].model_copy(update={"note": note})
    return blocks


def _optimise_block(model: _Model, request: RunRequest, block: BlockShare, budget: Budget) -> BlockShare:
    asked = request.model_copy(
        update={
            "task": _place_of(model, block),
            "budget": budget,
            "blocks": False,
            "workloads": (),
            "mode": None,
            "tolerance": None,
        }
    )
    whole = model.begun
    judge = workers.shared(whole.evaluator)
    begun = begin(asked, settings=whole.settings, store=whole.store, evaluator=judge, carry_on=True)
    result = finish(begun, progress=model.progress, on_event=model.on_event)
    found = {"run_id": result.run_id, "is_stored": begun.is_stored}
    evaluation, winner = result.evaluation, result.winner
    if winner is None or evaluation is None:
        return block.model_copy(update={**found, "note": f"nothing faster: {result.reason}"})
    over = [s.verdict for r in evaluation.told for s in r.speedups if s.baseline == "torch_compile"]
    found |= {"candidate": winner.id, "speedup": evaluation.geomean_speedup()}
    found |= {"beats_compiler": "faster" in over and "slower" not in over}
    return block.model_copy(update=found)


def _place_of(model: _Model, block: BlockShare) -> AsSaved:
    """Return the place of a block's task: the first of its kind, on what the model calls it with."""
    path = block.paths[0]
    calls = examples(model.original, model.calls, path)
    named = calls[0].kwargs
    if any(call.kwargs.keys() != named.keys() for call in calls) or (named and len(calls) > 1):
        raise TaskError(f"{path}: it takes arguments by name, and the model has several workloads")
    inputs: Any = [call.args for call in calls] if len(calls) > 1 else calls[0].args
    task = task_from_module(
        model.original.get_submodule(path),
        inputs,
        name=block.name,
        folder=model.begun.settings.data_dir / "modules",
        tolerance=model.begun.spec.task.tolerance,
        kwargs=named,
    )
    return save_task(task)


def _compose(model: _Model, blocks: list[BlockShare]) -> tuple[ModelTakenApart, list[Candidate]]:
    """Return the ways to put the model together, and what the report says of it."""
    before = model.profiled.total_ms
    kernels = _kernels(model, blocks)
    first = _fitting(model, blocks, kernels)
    apart = ModelTakenApart(before_ms=before, after_ms=None, blocks=tuple(blocks), compositions=())
    if not kernels:
        unfit = next((block.note for block in blocks if block.note.startswith(UNFIT)), "")
        note = unfit or "no block of the model became faster" if blocks else "it has no blocks to take out"
        apart = apart.model_copy(update={"note": note})
    elif not model.begun.spec.machine.is_elsewhere:  # kernels for another machine are not called on this one
        after = _after(model, kernels)
        timed = tuple(
            block.model_copy(update={"after_ms": after.ms_of(block.paths)}) if number in kernels else block
            for number, block in enumerate(blocks)
        )
        apart = apart.model_copy(update={"after_ms": after.total_ms, "blocks": timed})
    made = _printed_ways(model, blocks, kernels, first)
    ways, candidates = [], []
    for (kinds, is_compiled), candidate in made.items():
        way = Composition(candidate=candidate.id, kinds=kinds, is_compiled=is_compiled)
        try:
            here = _timed_in_process(model, kernels, way)
        except TaskError as error:  # torch.compile cannot take in the model's own Python
            model.tell(f"{model.begun.spec.task.name}: one way to put it together is left out: {error}")
            continue
        ways.append(way.model_copy(update={"in_process": here}))
        candidates.append(candidate)
    return apart.model_copy(update={"compositions": tuple(ways)}), candidates


def _as_one(model: _Model) -> Candidate:
    """Return the whole model as one program, after all that surely pays.

    The program is not searched any further: that is what the seconds of the blocks went into.

    Raises:
        CaptureError: the model cannot be captured.
        LoweringError: it is too large for one program, or no code is generated for it.
    """
    spec, count = model.begun.spec, n_layers(model.original)
    if count > MOST_LAYERS:
        raise LoweringError(f"one program of {count} layers would be too large, more than {MOST_LAYERS}")
    model.tell(f"{spec.task.name}: writing it as one program")
    problem, why_not = prepare(spec, model.begun.settings.cache_dir)
    if why_not is not None:
        raise CaptureError(why_not)
    workshop = PlanLowering(load_skills())
    plan = ExpertGenerator(workshop).surest(problem)
    made = workshop.candidate(problem, plan, parents=(), role="generator")
    if not target_of(spec.target).has_kernel(made.source):
        raise LoweringError("no code is generated for it as one program")
    return made


def _printed_ways(
    model: _Model,
    blocks: list[BlockShare],
    kernels: Mapping[int, Mapping[str, VerifiedKernel]],
    first: Candidate | None,
) -> dict[tuple[tuple[int, ...], bool], Candidate]:
    """Return the ways that can be written as one file; one that cannot loses no other.

    ``first`` is the one that is written already: all kernels, the rest eager.
    """
    made: dict[tuple[tuple[int, ...], bool], Candidate] = {}
    for way in compositions(blocks):
        try:
            if first is not None and way == (tuple(kernels), False):
                made[way] = first
            else:
                made[way] = _as_one(model) if way == AS_ONE else _printed(model, kernels, *way)
        except (CaptureError, LoweringError) as error:
            model.tell(f"{model.begun.spec.task.name}: one way to put it together is left out: {error}")
    return made


def _kernels(model: _Model, blocks: list[BlockShare]) -> dict[int, Mapping[str, VerifiedKernel]]:
    """Return the kernels of each kind that has one, by block; a kind whose blocks take none is left."""
    made: dict[int, Mapping[str, VerifiedKernel]] = {}
    for number, block in enumerate(blocks):
        if block.candidate is not None:
            winner = model.begun.store.get_candidate(block.candidate, block.run_id)
            try:
                made[number] = make_kernels(model.original, model.calls, [(block.paths, winner)]).by_path
            except TaskError as error:
                blocks[number] = _unfit(block, error)
    return made


def _fitting(
    model: _Model, blocks: list[BlockShare], kernels: dict[int, Mapping[str, VerifiedKernel]]
) -> Candidate | None:
    """Return the model with all kernels that can be in it together; the others are taken out, with a note.

    None where there is none.
    """
    if not kernels:
        return None
    try:
        return _printed(model, kernels, tuple(kernels))
    except (CaptureError, LoweringError):
        found = None
    kept: tuple[int, ...] = ()
    for number in tuple(kernels):
        try:
            found = _printed(model, kernels, (*kept, number))
            kept = (*kept, number)
        except (CaptureError, LoweringError) as error:
            blocks[number] = _unfit(blocks[number], error)
            del kernels[number]
    return found


def _unfit(block: BlockShare, error: Exception) -> BlockShare:
    return block.model_copy(update={"candidate": None, "note": f"{UNFIT}: {error}"})


def _printed(
    model: _Model,
    kernels: Mapping[int, Mapping[str, VerifiedKernel]],
    kinds: tuple[int, ...],
    is_compiled: bool = False,
) -> Candidate:
    chosen = {path: kernel for kind in kinds for path, kernel in kernels[kind].items()}
    spec = model.begun.spec
    return print_model(spec.task, chosen, spec.target, is_compiled=is_compiled)


def _after(model: _Model, kernels: Mapping[int, Mapping[str, VerifiedKernel]]) -> TimeProfile:
    """Return where the time goes with every kernel in its place."""
    by_path = {path: kernel for made in kernels.values() for path, kernel in made.items()}
    own, _ = original_of(model.begun.spec.task, model.original)
    return profile(patch(own, by_path), model.calls, only=frozenset(by_path))


def _timed_in_process(
    model: _Model, kernels: Mapping[int, Mapping[str, VerifiedKernel]], way: Composition
) -> Speedup | None:
    """Return the speedup in this process of the model as it would be delivered.

    None where the kernels are for another machine, or there are none: what torch.compile makes of the model
    is the baseline itself.

    Raises:
        TaskError: the model cannot be called so.
    """
    if model.begun.spec.machine.is_elsewhere or not way.kinds:
        return None
    by_path = {path: kernel for kind in way.kinds for path, kernel in kernels[kind].items()}
    own, _ = original_of(model.begun.spec.task, model.original)
    model.tell(f"{model.begun.spec.task.name}: timing it {way.words} beside the original")
    patched = patch(own, by_path)
    return timed_in_turn(model.original, compile_whole(patched) if way.is_compiled else patched, model.calls)


@contextmanager
def pickled_by_value(model: nn.Module | None) -> Iterator[None]:
    """Pickle the classes of a file's model whole: no other process can import them."""
    names = {type(part).__module__ for part in model.modules()} if model is not None else set()
    registered = [sys.modules[name] for name in names if name.startswith("kernelwright_original_")]
    for module in registered:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)

"""A whole model: its blocks are optimised, each kind once, and the model is put together and judged."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cloudpickle
from torch import nn

from kernelwright.api import playing
from kernelwright.api.optimizing import OptimizeResult, finish, result_of
from kernelwright.api.starting import Begun, begin
from kernelwright.core.blocks import BlockShare, Composition
from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import CaptureError, LoweringError, TaskError
from kernelwright.core.events import Event, ModelTakenApart
from kernelwright.core.places import AsSaved
from kernelwright.core.request import RunRequest
from kernelwright.delivery.making import ExampleCall, calls_of, original_of
from kernelwright.methods import find_recipe
from kernelwright.tasks.live import task_from_module
from kernelwright.tasks.places import save_task
from kernelwright.whole.blocks import find_blocks
from kernelwright.whole.composing import compositions
from kernelwright.whole.patching import make_kernels, patch
from kernelwright.whole.printing import print_model
from kernelwright.whole.profiling import TimeProfile, examples, profile
from kernelwright.whole.sharing import share_budget

Tell = Callable[[str], None]


@dataclass(frozen=True)
class _Model:
    """The model that is taken apart."""

    begun: Begun
    original: nn.Module
    """In the task's mode; nobody else's."""
    calls: list[ExampleCall]
    profile: TimeProfile
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
    asked for again, the model goes on from them.

    Args:
        begun: the run of the whole.
        original: the live module; None: a file's is constructed.
        progress: as ``show_run``.
        on_event: called with each event of every run.
        tell: is told in one line what happens next.

    Raises:
        TaskError: the model does not run on its example, or cannot be copied.
    """
    if begun.is_stored:
        return result_of(begun, begun.carry_on(on_event), original)
    task = begun.spec.task
    own, origin = original_of(task, original)
    with pickled_by_value(own if origin is not None else None):
        calls = calls_of(task, original)
        tell(f"{task.name}: looking where its time goes")
        model = _Model(begun, own, calls, profile(own, calls), on_event, progress, tell)
        blocks, winners = _optimise_blocks(model)
    apart, candidates = _compose(model, blocks, winners)
    tell(f"{task.name}: judging {len(candidates)} ways to put it together")
    outcome = playing.put_together(
        begun.run_id,
        candidates,
        apart,
        store=begun.store,
        settings=begun.settings,
        referee=begun.evaluator,
        on_event=on_event,
    )
    return result_of(begun, outcome, original)


def _optimise_blocks(model: _Model) -> tuple[list[BlockShare], list[tuple[Sequence[str], Candidate]]]:
    """Return what became of each kind of block, and the kernels that won."""
    request = model.begun.request
    assert request is not None
    kinds = find_blocks(model.profile.parts)
    shares = [kind.ms / model.profile.total_ms for kind in kinds]
    granted = find_recipe(request.recipe).budget.model_dump()
    granted |= request.budget.model_dump(exclude_none=True)
    parts = share_budget(request.budget, shares)
    blocks: list[BlockShare] = []
    winners: list[tuple[Sequence[str], Candidate]] = []
    for number, (kind, share, budget) in enumerate(zip(kinds, shares, parts, strict=True), 1):
        block = BlockShare(
            name=type(model.original.get_submodule(kind.paths[0])).__name__,
            paths=kind.paths,
            before_ms=kind.ms,
            share=min(share, 1.0),
        )
        if budget is None:
            blocks.append(block.model_copy(update={"note": "too small a share of the time for the budget"}))
            continue
        model.tell(
            f"block {number} of {len(kinds)}: {block.name}, {len(kind.paths)} times, "
            f"{100 * share:.0f} % of the time"
        )
        block, winner = _optimise_block(model, request, block, budget)
        blocks.append(block)
        if winner is not None:
            winners.append((kind.paths, winner))
    return blocks, winners


def _optimise_block(
    model: _Model, request: RunRequest, block: BlockShare, budget: Budget
) -> tuple[BlockShare, Candidate | None]:
    try:
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
        begun = begin(
            asked, settings=whole.settings, store=whole.store, evaluator=whole.evaluator, carry_on=True
        )
        result = finish(begun, progress=model.progress, on_event=model.on_event)
    except (TaskError, CaptureError) as error:
        return block.model_copy(update={"note": str(error)}), None
    found = {"run_id": result.run_id, "is_stored": begun.is_stored}
    evaluation, winner = result.evaluation, result.winner
    if winner is None or evaluation is None:
        return block.model_copy(update={**found, "note": f"nothing faster: {result.reason}"}), None
    over = [s.verdict for r in evaluation.told for s in r.speedups if s.baseline == "torch_compile"]
    found |= {"candidate": winner.id, "speedup": evaluation.geomean_speedup()}
    found |= {"beats_compiler": "faster" in over and "slower" not in over}
    return block.model_copy(update=found), winner


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


def _compose(
    model: _Model, blocks: list[BlockShare], winners: list[tuple[Sequence[str], Candidate]]
) -> tuple[ModelTakenApart, list[Candidate]]:
    """Return the ways to put the model together, and what the report says of it."""
    begun, before = model.begun, model.profile.total_ms
    apart = ModelTakenApart(before_ms=before, after_ms=None, blocks=tuple(blocks), compositions=())
    if not winners:
        note = "no block of the model became faster" if blocks else "the model has no blocks to take out"
        return apart.model_copy(update={"note": note}), []
    made, ways, why = [], [], []
    by_first = {paths[0]: (paths, winner) for paths, winner in winners}
    for kinds, is_compiled in compositions(blocks):
        chosen = [by_first[blocks[kind].paths[0]] for kind in kinds]
        try:
            kernels = make_kernels(model.original, model.calls, chosen)
            candidate = print_model(
                begun.spec.task, kernels.by_path, begun.spec.target, is_compiled=is_compiled
            )
        except (TaskError, CaptureError, LoweringError) as error:
            why.append(str(error))
            continue
        made.append(candidate)
        ways.append(Composition(candidate=candidate.id, kinds=kinds, is_compiled=is_compiled))
    after = _after(model, winners)
    note = "" if ways else f"it cannot be put together: {why[0]}"
    return (
        ModelTakenApart(
            before_ms=before,
            after_ms=after.total_ms,
            blocks=tuple(
                block
                if block.candidate is None
                else block.model_copy(update={"after_ms": after.ms_of(block.paths)})
                for block in blocks
            ),
            compositions=tuple(ways),
            note=note,
        ),
        made,
    )


def _after(model: _Model, winners: list[tuple[Sequence[str], Candidate]]) -> TimeProfile:
    """Return where the time goes with every kernel in its place."""
    kernels = make_kernels(model.original, model.calls, winners)
    own, _ = original_of(model.begun.spec.task, model.original)
    return profile(patch(own, kernels.by_path), model.calls, only=frozenset(kernels.by_path))


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

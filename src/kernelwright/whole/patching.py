"""Puts kernels into the blocks of a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from kernelwright.core.candidate import Candidate
from kernelwright.core.task import Task
from kernelwright.delivery.compared import require_same_function
from kernelwright.delivery.making import ExampleCall, calls_of, make_contract, original_of, with_outputs
from kernelwright.delivery.runtime.compiled import compile_whole
from kernelwright.delivery.runtime.contract import Contract
from kernelwright.delivery.runtime.described import forget_classes
from kernelwright.delivery.runtime.kernel import VerifiedKernel
from kernelwright.delivery.runtime.module import attach
from kernelwright.delivery.unchanged import contract_of_parts, require_as_verified
from kernelwright.whole.profiling import examples


@dataclass(frozen=True)
class Kernels:
    """The kernel of each block that has one."""

    by_path: Mapping[str, VerifiedKernel]
    """Dotted name of the block -> kernel; blocks whose contracts are the same share one."""
    candidates: Mapping[str, Candidate]
    """Digest of the kernel -> the candidate that the referee verified."""


def make_kernels(
    model: nn.Module,
    calls: Sequence[ExampleCall],
    winners: Sequence[tuple[Sequence[str], Candidate]],
    *,
    is_frozen: bool = False,
) -> Kernels:
    """Return the kernels of a model's blocks, each with a contract for its own block.

    Args:
        model: the original; it is called, and not changed.
        calls: examples of its calls.
        winners: for each kind its blocks and the kernel that was verified on the first of them.
        is_frozen: kernels may prepare their weights once.

    Raises:
        TaskError: a block cannot be copied, or its calls hold what no contract can name.
    """
    by_path: dict[str, VerifiedKernel] = {}
    candidates: dict[str, Candidate] = {}
    known: dict[str, VerifiedKernel] = {}
    for paths, winner in winners:
        own = examples(model, calls, paths[0])
        for path in paths:
            block = model.get_submodule(path)
            title = type(block).__name__
            contract = make_contract(winner, block, own, title=title, is_frozen=is_frozen)
            contract = with_outputs(VerifiedKernel(winner.program, contract), block, own)
            made = VerifiedKernel(winner.program, contract)
            by_path[path] = known.setdefault(made.digest, made)
            candidates[made.digest] = winner
    return Kernels(by_path, candidates)


def patch(model: nn.Module, kernels: Mapping[str, VerifiedKernel]) -> nn.Module:
    """Put kernels into a model's blocks, in place, and return it."""
    for path, kernel in kernels.items():
        attach(kernel, model.get_submodule(path))
    return model


@dataclass(frozen=True)
class PatchedModel:
    """A model with kernels in its blocks, ready to be used and to be saved."""

    module: nn.Module
    kernels: Kernels
    contract: Contract
    """What is known of the model's parts and tensors; it has no calls of its own to check."""
    origin: str | None
    """Source of a file's original."""
    is_compiled: bool


@torch.inference_mode(False)
def deliver_patched(
    task: Task,
    original: nn.Module | None,
    winners: Sequence[tuple[Sequence[str], Candidate]],
    whole: Candidate,
    *,
    is_compiled: bool,
) -> PatchedModel:
    """Return the drop-in for a whole model; ``whole`` is what the referee judged in its place.

    Raises:
        OtherFunctionError: on an example the model with its kernels returns something else.
        TaskError: the original is not as it was verified, or cannot be copied.
    """
    forget_classes()
    module, origin = original_of(task, original)
    if original is not None:
        require_as_verified(task, module)
    calls = calls_of(task, original)
    kernels = make_kernels(module, calls, winners)
    contract = contract_of_parts(module, task.name, whole.id)
    patch(module, kernels.by_path)
    require_same_function(module, [(call.args, call.kwargs) for call in calls], task.name)
    if is_compiled:
        compile_whole(module)
    return PatchedModel(module, kernels, contract, origin, is_compiled)

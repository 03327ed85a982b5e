"""Puts kernels into the blocks of a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from kernelwright.core.candidate import Candidate
from kernelwright.delivery.making import ExampleCall, make_contract, with_outputs
from kernelwright.delivery.runtime.kernel import VerifiedKernel
from kernelwright.delivery.runtime.module import attach
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


def compile_around(model: nn.Module) -> nn.Module:
    """Let torch.compile take in what lies around the kernels, in place, when the model is first called."""
    model.compile(dynamic=False)
    return model


def reset_compiler() -> None:
    """Forget what torch.compile compiled in this process, so that a measurement begins anew."""
    torch.compiler.reset()

"""What a delivered module's checks add to the bare kernel call: ``python -m lab.benchmarks.guards``.

Each case is a module whose kernel takes next to no time. Bare call, delivered module and original are
called in turn, in random order, in one process. What counts is the median of the paired differences.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kernelwright.core.candidate import Candidate
from kernelwright.core.machine import Machine
from kernelwright.core.structure import take_apart
from kernelwright.delivery.making import Delivery, deliver
from kernelwright.ir.lower import lower
from kernelwright.targets.cpp.candidate import render_cpp_candidate
from kernelwright.targets.cpp.schedules import with_default_schedules
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.live import task_from_module

CALLS = 200
"""Calls in one timed batch."""


class Norm(nn.Module):
    """One weight, one input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.eps = 1e-6

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise."""
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Nested(nn.Module):
    """Nested arguments, a dict as result."""

    def forward(self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Compute a gate."""
        gate = torch.sigmoid(x + state[0])
        return {"out": gate * state[1], "gate": gate}


class Block(nn.Module):
    """Twelve weights in six submodules."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise again and again."""
        for norm in self.norms:
            x = torch.tanh(norm(x))
        return x


def cases() -> dict[str, tuple[nn.Module, tuple[Any, ...]]]:
    """Return modules with example calls."""
    x = torch.randn(2, 8)
    return {
        "one weight": (Norm().eval(), (x,)),
        "nested": (Nested().eval(), (x, (x + 1, x + 2))),
        "twelve weights": (Block().eval(), (x,)),
    }


def delivered(module: nn.Module, inputs: tuple[Any, ...], folder: Path) -> Delivery:
    """Deliver a module without a search."""
    task = task_from_module(module, inputs, name=type(module).__name__, folder=folder)
    captured = capture_task(task, task.workloads[0])
    program = with_default_schedules(lower(captured), Machine(cores=1))
    source = render_cpp_candidate(task, {task.workloads[0].name: (captured, program)}, "seed")
    return deliver(Candidate(source=source), task, module)


def added_us(made: Delivery, inputs: tuple[Any, ...], batches: int) -> tuple[float, float, float]:
    """Return the bare call's time, what the module adds, and the original's time."""
    kernel, fast = made.kernel, made.module
    instance = kernel.make()
    instance.take([fast.state_dict(keep_vars=True)[name] for name in kernel.contract.weights])
    bare_module = instance.call.__self__  # type: ignore[attr-defined]
    tensors = take_apart(inputs, torch.is_tensor)[1]
    original = type(fast)._kernelwright_original  # type: ignore[attr-defined]
    slow = original.__new__(original)
    slow.__dict__.update({n: v for n, v in vars(fast).items() if n != "_kernelwright"})
    ways: dict[str, Callable[[], Any]] = {
        "bare": lambda: bare_module(*tensors),
        "fast": lambda: fast(*inputs),
        "original": lambda: slow(*inputs),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(batches):
        for name in random.sample(list(ways), len(ways)):
            call, started = ways[name], time.perf_counter()
            for _ in range(CALLS):
                call()
            found[name].append((time.perf_counter() - started) / CALLS * 1e6)
    added = statistics.median(f - b for f, b in zip(found["fast"], found["bare"], strict=True))
    return statistics.median(found["bare"]), added, statistics.median(found["original"])


def main(words: Sequence[str]) -> None:
    """Measure every case and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batches", type=int, default=200)
    batches = parser.parse_args(words).batches
    torch.set_num_threads(1)
    sys.stdout.write("| module | bare call, us | the module adds, us | original, us |\n|---|---|---|---|\n")
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for name, (module, inputs) in cases().items():
            bare, added, slow = added_us(delivered(module, inputs, Path(folder)), inputs, batches)
            sys.stdout.write(f"| {name} | {bare:.1f} | {added:.1f} | {slow:.1f} |\n")


if __name__ == "__main__":
    main(sys.argv[1:])

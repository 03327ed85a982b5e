"""Makes the module as it is delivered inside a confined process; see ``program.py``."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from kernelwright.core.candidate import Candidate
from kernelwright.core.task import Mode, Task
from kernelwright.delivery.making import calls_of, make_contract, with_outputs
from kernelwright.delivery.runtime.compiled import compile_whole
from kernelwright.delivery.runtime.kernel import VerifiedKernel, load_origin
from kernelwright.delivery.runtime.module import attach
from kernelwright.tasks.namespace import bind_source


def compiled_maker(task_json: str) -> Callable[..., nn.Module]:
    """Return what constructs the task's module as torch.compile takes it in."""
    task = Task.model_validate_json(task_json)
    return lambda *init: compile_whole(_original(task, init)[0])


def maker(program: str, task_json: str, is_frozen: bool) -> Callable[..., nn.Module]:
    """Return what constructs the delivered module from the constructor's arguments, under the seed of now."""
    task = Task.model_validate_json(task_json)

    def construct(*init: Any) -> nn.Module:
        seed = torch.initial_seed()
        candidate, (original, origin) = Candidate(source=program), _original(task, init)
        with torch.enable_grad():  # a user makes it outside of no_grad
            calls = calls_of(task, None)
            contract = make_contract(
                candidate,
                original,
                calls,
                title=task.name,
                init=init,
                is_flat=False,
                is_frozen=is_frozen,
                seed=seed,
            )
            tried = VerifiedKernel(candidate.program, contract, origin=origin)
            contract = with_outputs(tried, original, calls)
            kernel = VerifiedKernel(candidate.program, contract, origin=origin)
            return attach(kernel, original)

    return construct


def _original(task: Task, init: tuple[Any, ...]) -> tuple[nn.Module, str]:
    """Return the task's module in its mode, and its source."""
    origin = bind_source(task, task.workloads[0])
    original: nn.Module = load_origin(origin).Model(*init)
    return original.train(task.mode is Mode.TRAIN), origin

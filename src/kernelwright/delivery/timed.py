"""Makes the module as it is delivered inside a confined process; see ``program.py``."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from kernelwright.core.candidate import Candidate
from kernelwright.core.task import Mode, Task
from kernelwright.delivery.making import calls_of, make_contract, with_outputs
from kernelwright.delivery.runtime.kernel import VerifiedKernel, load_origin
from kernelwright.delivery.runtime.module import attach
from kernelwright.tasks.namespace import bind_source


def maker(program: str, task_json: str, is_frozen: bool) -> Callable[..., nn.Module]:
    """Return what constructs the delivered module from the constructor's arguments, under the seed of now."""
    task = Task.model_validate_json(task_json)

    def construct(*init: Any) -> nn.Module:
        seed = torch.initial_seed()
        candidate, origin = Candidate(source=program), bind_source(task, task.workloads[0])
        original: nn.Module = load_origin(origin).Model(*init)
        original.train(task.mode is Mode.TRAIN)
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

"""Is a live module still the one that was verified? Contracts are made of what it is when it is delivered."""

import copy
import io

import cloudpickle
from torch import nn

from kernelwright.core.errors import TaskError
from kernelwright.core.task import Mode, Task
from kernelwright.delivery.runtime.calls import Cause
from kernelwright.delivery.runtime.contract import (
    Contract,
    describe_constants,
    describe_parts,
    describe_weights,
)
from kernelwright.delivery.runtime.explain import module_causes
from kernelwright.tasks.namespace import load_namespace
from kernelwright.tasks.pickled import read_pickle


def require_as_verified(task: Task, module: nn.Module) -> None:
    """Raise TaskError, naming what differs, where a module is not the one that a task was made of.

    Values of parameters and saved buffers may differ: kernels read them in each call. Hooks may differ: where
    inner modules have any, no kernel runs.

    Args:
        task: of a live module, which it holds as a pickle; of a file's task nothing is compared.
        module: a copy of the live module, in the task's mode.
    """
    if task.artifact is None:
        return
    verified = own_copy(task, load_namespace(task, task.workloads[0]).loaded["module"])
    contract = contract_of_parts(verified, task.name, "")
    found = _differences(contract, verified, module)
    if found:  # a function that was pickled with its code is another one afterwards: compare it with its like
        found = _differences(contract, verified, read_pickle(io.BytesIO(cloudpickle.dumps(module))))
    if found:
        raise TaskError(
            f"{task.name}: the module is not the one that was verified: {found[0].text}; set it back, or "
            "optimize it anew"
        )


def _differences(contract: Contract, verified: nn.Module, module: nn.Module) -> list[Cause]:
    """Return in what a module differs from the verified one, as far as that one is like itself."""
    own = {cause.text for cause in module_causes(contract, verified, {})}
    causes = module_causes(contract, module, {})
    return [cause for cause in causes if cause.kind != "hooks" and cause.text not in own]


def contract_of_parts(module: nn.Module, title: str, kernel: str) -> Contract:
    """Return what is known of a module's parts and tensors; it has no calls to check."""
    return Contract(
        title=title,
        kernel=kernel,
        cases=(),
        parts=describe_parts(module),
        weights=describe_weights(module, frozenset()),
        constants=describe_constants(module),
    )


def own_copy(task: Task, original: nn.Module) -> nn.Module:
    """Return a copy of a live module in the task's mode; raises TaskError where it cannot be copied."""
    try:
        copied = copy.deepcopy(original)
    except Exception as error:  # whatever a user's __deepcopy__ raises
        raise TaskError(f"{task.name}: the module cannot be copied ({error!r})") from error
    return copied.train(task.mode is Mode.TRAIN) if copied.training != (task.mode is Mode.TRAIN) else copied

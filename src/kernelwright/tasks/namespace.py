"""Run a task's source in a namespace of its own and take the pieces of the contract from it."""

import ast
import itertools
import linecache
import sys
from types import ModuleType
from typing import Any

import torch
from torch import nn

from kernelwright.core.errors import TaskError
from kernelwright.core.task import Mode, Task, Workload

_counter = itertools.count()


def bind_source(task: Task, workload: Workload) -> str:
    """Return the task's source with the workload's globals rebound.

    The assignment itself is rewritten, so globals computed from it follow. Raises TaskError for a
    name that no top-level assignment of a single name binds.
    """
    if not workload.overrides:
        return task.source
    tree = ast.parse(task.source)
    missing = dict(workload.overrides)
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if isinstance(target, ast.Name) and target.id in workload.overrides:
            value = workload.overrides[target.id]
            statement.value = ast.parse(repr(value), mode="eval").body
            missing.pop(target.id, None)
    if missing:
        raise TaskError(
            f"{task.name}: workload {workload.name!r} rebinds {', '.join(sorted(missing))}, "
            "which the file does not assign at top level"
        )
    return ast.unparse(tree)


def load_namespace(task: Task, workload: Workload) -> ModuleType:
    """Execute the bound source as a fresh module; raises TaskError with the line that failed."""
    source = bind_source(task, workload)
    name = f"kernelwright_task_{next(_counter)}"
    module = ModuleType(name)
    filename = f"<{name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    sys.modules[name] = module  # dataclasses and pickling inside the source look themselves up
    try:
        exec(
            compile(source, filename, "exec"), module.__dict__
        )  # the user's own reference: trusted
    except Exception as error:  # whatever the user's file raises is the file's fault
        raise TaskError(f"{task.path or task.name}: importing it raised {error!r}") from error
    for wanted in ("Model", "get_inputs", "get_init_inputs"):
        if not hasattr(module, wanted):
            raise TaskError(f"{task.path or task.name}: defines no `{wanted}`")
    return module


def construct_model(task: Task, namespace: ModuleType, seed: int) -> nn.Module:
    """Construct ``Model(*get_init_inputs())`` under a seed, in the task's mode."""
    torch.manual_seed(seed)
    try:
        model = namespace.Model(*namespace.get_init_inputs())
    except Exception as error:  # the user's constructor
        raise TaskError(f"{task.path or task.name}: Model(...) raised {error!r}") from error
    return model.eval() if task.mode is Mode.EVAL else model.train()


def draw_inputs(task: Task, namespace: ModuleType, seed: int) -> list[Any]:
    """Call ``get_inputs()`` under a seed."""
    torch.manual_seed(seed)
    try:
        return list(namespace.get_inputs())
    except Exception as error:  # the user's input generator
        raise TaskError(f"{task.path or task.name}: get_inputs() raised {error!r}") from error

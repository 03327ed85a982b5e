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
from kernelwright.core.printing import unparse
from kernelwright.core.task import Mode, Task, Workload
from kernelwright.tasks.globals import assigned_names, single_target

_counter = itertools.count()


def bind_source(task: Task, workload: Workload) -> str:
    """Return the task's source with the workload's globals rebound.

    Each assignment of such a name is replaced (or followed, where it binds several names) by the new
    value, so globals computed from it later follow. Raises TaskError for a name never assigned.
    """
    if not workload.overrides:
        return task.source
    tree = ast.parse(task.source)
    body: list[ast.stmt] = []
    rebound: set[str] = set()
    for statement in tree.body:
        names = sorted(assigned_names(statement) & set(workload.overrides))
        rebound.update(names)
        if not (names and single_target(statement)):  # the original of a single name need not run
            body.append(statement)
        body.extend(ast.parse(f"{name} = {workload.overrides[name]!r}").body[0] for name in names)
    missing = sorted(set(workload.overrides) - rebound)
    if missing:
        raise TaskError(
            f"{task.path or task.name}: workload {workload.name!r} rebinds {', '.join(missing)}, "
            "which the file does not assign at top level"
        )
    tree.body = body
    return unparse(tree)


def load_namespace(task: Task, workload: Workload) -> ModuleType:
    """Execute the bound source as a fresh module; raises TaskError with the line that failed."""
    source = bind_source(task, workload)
    name = f"kernelwright_task_{next(_counter)}"
    module = ModuleType(name)
    filename = f"<{name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    sys.modules[name] = module  # dataclasses and pickling inside the source look themselves up
    try:
        exec(compile(source, filename, "exec"), module.__dict__)  # the user's own reference: trusted
    except (Exception, SystemExit) as error:  # whatever the user's file raises is the file's fault
        raise TaskError(f"{task.path or task.name}: importing it raised {error!r}") from error
    for wanted in ("Model", "get_inputs", "get_init_inputs"):
        if not hasattr(module, wanted):
            raise TaskError(f"{task.path or task.name}: defines no `{wanted}`")
    return module


def seed_generators(seed: int) -> None:
    """Do what ``torch.manual_seed`` does.

    That writes the stack down for every kind of device that is not there. Where torch was built for the
    processor alone, what is left to seed takes a hundredth of the time.
    """
    if torch.accelerator.current_accelerator(check_available=False) is None:
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def construct_model(task: Task, namespace: ModuleType, seed: int) -> nn.Module:
    """Construct ``Model(*get_init_inputs())`` under a seed; train mode means as constructed."""
    seed_generators(seed)
    try:
        model: nn.Module = namespace.Model(*namespace.get_init_inputs())
    except (Exception, SystemExit) as error:  # the user's constructor
        raise TaskError(f"{task.path or task.name}: Model(...) raised {error!r}") from error
    return model.eval() if task.mode is Mode.EVAL else model


def draw_inputs(task: Task, namespace: ModuleType, seed: int) -> list[Any]:
    """Call ``get_inputs()`` under a seed."""
    seed_generators(seed)
    try:
        return list(namespace.get_inputs())
    except (Exception, SystemExit) as error:  # the user's input generator
        raise TaskError(f"{task.path or task.name}: get_inputs() raised {error!r}") from error

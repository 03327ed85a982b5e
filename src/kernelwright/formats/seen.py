"""How a task is called: names and forms of what goes in and comes out, as data.

To see it, the task's code must run. ``python -m kernelwright.formats.seen FD`` does that in a process of its
own, for a stranger's task in the sandbox: a task and a workload come as JSON on standard input, and what was
seen goes to the descriptor. Of a stranger's answer nothing is believed but that it has this form.
"""

import ast
import json
import keyword
import os
import sys
from typing import Annotated, Any, TypeAlias

import torch
from pydantic import AfterValidator, Field
from torch import nn
from torch.utils._pytree import tree_leaves

from kernelwright.core.errors import UserError
from kernelwright.core.frozen import Frozen
from kernelwright.core.task import Task, Workload
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace

SEED = 0
MOST = 4096
"""Inputs, outputs and dimensions that are read of an answer."""


def _name(text: str) -> str:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise ValueError("no name of an argument")
    return text


def _literal(text: str) -> str:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("an argument of the constructor is no literal") from error
    return text


class SeenTensor(Frozen):
    """A tensor without its values."""

    shape: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(max_length=64)]
    dtype: Annotated[str, Field(pattern="^[a-z0-9_]{1,32}$")]

    @staticmethod
    def of(tensor: torch.Tensor) -> "SeenTensor":
        """Return the form of a tensor."""
        return SeenTensor(shape=tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."))


SeenValue: TypeAlias = SeenTensor | bool | int | float


class SeenCall(Frozen):
    """A task as it is called on one workload."""

    init: Annotated[tuple[Annotated[str, Field(max_length=1 << 16)], ...], Field(max_length=MOST)]
    """The constructor's arguments as Python writes them."""
    inputs: Annotated[dict[Annotated[str, AfterValidator(_name)], SeenValue], Field(max_length=MOST)]
    """Of ``forward``, by name."""
    outputs: Annotated[tuple[SeenTensor, ...], Field(max_length=MOST)]
    state: Annotated[dict[str, SeenTensor], Field(max_length=1 << 16)]
    """Parameters and buffers, by their names in the state_dict."""


def look(task: Task, workload: Workload) -> SeenCall:
    """Call the reference on one workload, in this process.

    Raises:
        TaskError: its code fails.
        UserError: an input is neither a tensor nor a number.
    """
    namespace = load_namespace(task, workload)
    model = construct_model(task, namespace, SEED)
    given = draw_inputs(task, namespace, SEED)
    inputs: dict[str, SeenValue] = {}
    for key, value in zip(_argument_names(model, len(given)), given, strict=True):
        if not isinstance(value, torch.Tensor | bool | int | float):
            raise UserError(
                f"{task.name}: input {key} is a {type(value).__name__}; only tensors and numbers convert"
            )
        inputs[key] = SeenTensor.of(value) if isinstance(value, torch.Tensor) else value
    state = {key: SeenTensor.of(value) for key, value in model.state_dict().items()}
    with torch.no_grad():
        leaves = tree_leaves(model(*given))
    outputs = tuple(SeenTensor.of(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))
    init = tuple(repr(value) for value in namespace.get_init_inputs())
    return SeenCall(init=init, inputs=inputs, outputs=outputs, state=state)


def read_seen(document: Any) -> SeenCall:
    """Return what a process that ran a stranger's task says it saw; raises ValueError."""
    seen = SeenCall.model_validate_json(json.dumps(document))
    for text in seen.init:
        _literal(text)
    return seen


def _argument_names(model: nn.Module, count: int) -> list[str]:
    code = type(model).forward.__code__
    names = list(code.co_varnames[1 : code.co_argcount])[:count]
    return names if len(names) == count else [f"input{i}" for i in range(count)]


def main() -> None:
    """Answer the question on stdin."""
    answers, asked = int(sys.argv[1]), json.loads(sys.stdin.read())
    task, workload = Task.model_validate(asked["task"]), Workload.model_validate(asked["workload"])
    try:
        told: dict[str, Any] = {"seen": look(task, workload).model_dump(mode="json")}
    except UserError as error:
        told = {"problem": str(error)}
    os.write(answers, json.dumps(told).encode() + b"\n")
    os._exit(0)


if __name__ == "__main__":
    main()

"""The operator of every suite task's kernel keeps the rules of ``torch.library``, at small sizes.

A few are in the slow set; ``pytest -m every_task tests/delivery`` has them all.
"""

import ast
import copy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.delivery.delivering import printed
from torch.utils._pytree import tree_leaves

from kernelwright.core.task import Literal_, Task, Workload
from kernelwright.delivery.making import calls_of, deliver, original_of
from kernelwright.tasks.globals import assigned_literals
from kernelwright.tasks.suite import suite_tasks

SMALL: dict[str, int] = {"batch_size": 4, "rows": 128, "size": 96, "height": 16, "width": 16, "steps": 32}
SAMPLE = ("14_BatchNormTrain", "18_CrossEntropy", "27_Softmax", "37_CausalAttention", "54_ResidualBlock")
"""One that writes buffers, one with integers, one without weights, one around a library call, a network."""


def small(task: Task) -> Task:
    """Return a suite task with one workload that takes next to no time."""
    sizes = assigned_literals(ast.parse(task.source))
    overrides: dict[str, Literal_] = {name: size for name, size in SMALL.items() if name in sizes}
    return task.model_copy(update={"workloads": (Workload(name="small", overrides=overrides),)})


def cases() -> list[Any]:
    marks = {True: (pytest.mark.slow, pytest.mark.every_task), False: (pytest.mark.every_task,)}
    return [pytest.param(task, marks=marks[task.name in SAMPLE], id=task.name) for task in suite_tasks()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", cases())
def test_its_operator_is_one_for_compilers_exporters_and_autograd(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    torch._dynamo.reset()
    task = small(task)
    delivery = deliver(printed(task), task)
    fast: Any = delivery.module
    operator = type(fast)._kernelwright_operators[0]
    (call,) = calls_of(task, None)
    contract = delivery.kernel.contract
    held = fast.state_dict(keep_vars=True)
    weights = [held[name] for name, weight in contract.weights.items() if weight.same_as is None]
    inputs = [leaf for leaf in tree_leaves((call.args, call.kwargs)) if isinstance(leaf, torch.Tensor)]
    wanting = [x.is_floating_point() for x in inputs] + [isinstance(w, torch.nn.Parameter) for w in weights]
    tensors = [tensor.detach().clone() for tensor in (*inputs, *weights)]
    torch.library.opcheck(operator, tuple(tensors))
    if "!" not in str(operator._schema):
        torch.library.opcheck(operator, tuple(map(torch.Tensor.requires_grad_, tensors, wanting)))
    original, _ = original_of(task, None)
    original.load_state_dict(fast.state_dict())
    compiled = torch.compile(copy.deepcopy(fast), fullgraph=True, backend="aot_eager")
    with torch.no_grad(), warnings.catch_warnings():
        exported = torch.export.export(fast, call.args)
        assert any(node.target is operator for node in exported.graph.nodes)
        want = original(*call.args)
        for ran in (fast, compiled, exported.module()):
            torch.testing.assert_close(ran(*call.args), want, rtol=1e-4, atol=1e-4)
    assert fast.report().original_calls == 0

import ast
from collections import Counter
from pathlib import Path

import pytest
import torch

from kernelwright.core.errors import UserError
from kernelwright.core.places import OfSuite, parse_place
from kernelwright.core.task import Literal_, Task, Workload
from kernelwright.tasks.globals import assigned_literals
from kernelwright.tasks.kernelbench import task_category, task_number
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace
from kernelwright.tasks.places import collect
from kernelwright.tasks.suite import suite_tasks

SMALL: dict[str, int] = {"batch_size": 4, "rows": 128, "size": 96, "height": 16, "width": 16, "steps": 32}


def shrunk(task: Task) -> Workload:
    sizes = assigned_literals(ast.parse(task.source))
    overrides: dict[str, Literal_] = {name: size for name, size in SMALL.items() if name in sizes}
    return Workload(name="small", overrides=overrides)


def run(task: Task, seed: int, *, sign: float = 1.0) -> torch.Tensor:
    namespace = load_namespace(task, shrunk(task))
    model = construct_model(task, namespace, seed=0)
    inputs = [x * sign if x.is_floating_point() else x for x in draw_inputs(task, namespace, seed)]
    with torch.no_grad():
        output = model(*inputs)
    assert isinstance(output, torch.Tensor)
    return output.double()


def test_the_suite_is_mixed_like_kernelbench() -> None:
    numbers = [task_number(task) for task in suite_tasks()]
    counts = Counter(task_category(task) for task in suite_tasks())
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= 40
    least = {"pointwise": 6, "reduction": 5, "norm": 5, "loss": 3, "pooling": 3, "scan": 3, "softmax": 2}
    least |= {"matmul": 5, "convolution": 3, "attention": 2, "fused": 12, "network": 5}
    assert set(counts) == set(least)
    assert all(counts[category] >= n for category, n in least.items())


@pytest.mark.parametrize("task", suite_tasks(), ids=lambda task: task.name)
def test_a_task_depends_on_its_inputs_and_nothing_else(task: Task) -> None:
    first, again, other = run(task, 1), run(task, 1), run(task, 2)
    assert torch.isfinite(first).all() and torch.isfinite(run(task, 1, sign=-1.0)).all()
    assert torch.equal(first, again)
    change = (first - other).abs().mean() / first.abs().mean()
    assert change > 1e-3
    assert first.numel() == 1 or first.std() > 1e-4


@pytest.mark.parametrize("task", suite_tasks(), ids=lambda task: task.name)
def test_no_parameter_is_dead(task: Task) -> None:
    namespace = load_namespace(task, shrunk(task))
    model = construct_model(task, namespace, seed=0)
    parameters = list(model.parameters())
    if parameters:
        model(*draw_inputs(task, namespace, seed=1)).double().pow(2).sum().backward()
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in parameters)


def test_no_folder_stands_in_the_place_of_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suite").mkdir()
    monkeypatch.chdir(tmp_path)
    assert len(collect([OfSuite()])) == len(collect([])) == len(suite_tasks())
    with pytest.raises(UserError, match=r"holds no \.py files"):
        collect([parse_place("./suite")])


def test_tasks_are_picked_by_name_or_by_folder_and_name() -> None:
    names = [entry.task.name for entry in collect([], only="*Softmax*")]
    assert names and all("Softmax" in name for name in names)
    categories = {entry.category for entry in collect([])}
    one = sorted(categories)[0]
    of_one = [entry for entry in collect([]) if entry.category == one]
    assert collect([], only=f"{one}/*") == of_one
    with pytest.raises(UserError, match="no task matches --only 'none/"):
        collect([], only="none/*")

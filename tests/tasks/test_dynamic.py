"""Tasks with dynamic axes: inputs of other sizes, workloads to time and to verify, what is refused."""

from pathlib import Path

import pytest
import torch
from torch import nn

from kernelwright.core.dynamic import parse_dynamic
from kernelwright.core.errors import TaskError, UserError
from kernelwright.core.task import Task
from kernelwright.tasks.dynamic import EXTENTS, dynamic_task
from kernelwright.tasks.live import task_from_module
from kernelwright.tasks.namespace import draw_inputs, load_namespace
from kernelwright.tasks.resized import resized

SOURCE = """
import torch
from torch import nn

rows = 6


class Model(nn.Module):
    def forward(self, x, other, factor=2.0):
        return {result}


def get_inputs():
    return [torch.rand(rows, 4), torch.randint(0, 9, (rows,)), 3.0]


def get_init_inputs():
    return []
"""


def _task(result: str = "x * factor + other[:, None]") -> Task:
    return Task(name="t", source=SOURCE.format(result=result))


def _shapes(task: Task) -> dict[str, list[tuple[int, ...]]]:
    return {
        workload.name: [
            tuple(value.shape)
            for value in draw_inputs(task, load_namespace(task, workload), 0)
            if isinstance(value, torch.Tensor)
        ]
        for workload in task.workloads
    }


def test_the_batch_is_the_first_axis_of_all_inputs_that_have_its_size() -> None:
    task = dynamic_task(_task(), [parse_dynamic("batch:1-20")])
    (axis,) = task.dynamic
    assert (axis.axes, axis.span, axis.timed) == (((0, 0), (1, 0)), (1, 20), (6,))
    shapes = _shapes(task)
    assert {shape[0] for found in shapes.values() for shape in found} >= {1, 6, 20}
    assert all(found[0][0] == found[1][0] for found in shapes.values())


def test_the_first_workload_is_timed_and_the_edges_are_verified() -> None:
    task = dynamic_task(_task(), [parse_dynamic("rows=x:0,other:0:2-20@4,16")])
    assert [w.overrides[EXTENTS] for w in task.timed_workloads] == [(4,), (16,)]
    untimed = [w.overrides[EXTENTS] for w in task.workloads if not w.is_timed]
    assert {(2,), (20,)} <= set(untimed)
    assert task.id != _task().id


def test_the_same_seed_draws_the_same_extents() -> None:
    asked = [parse_dynamic("batch:1-2000")]
    one, same, other = (dynamic_task(_task(), asked, seed) for seed in (0, 0, 1))
    assert one.id == same.id != other.id


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("a=z:0:1-4", "known: x, other"),
        ("a=factor:0:1-4", "names no tensor"),
        ("a=x:2:1-4", "no axis 2"),
        ("rows=x:0,x:1:1-9", "different sizes: 4, 6"),
        ("batch:6-6", "the range is 6-6"),
    ],
)
def test_an_axis_that_is_not_there_gets_one_line(asked: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        dynamic_task(_task(), [parse_dynamic(asked)])


def test_a_graph_for_a_part_of_the_range_is_refused() -> None:
    with pytest.raises(TaskError, match=r"does not serve batch:1-20.*narrow the range"):
        dynamic_task(_task("x * 2 if x.shape[0] > 5 else x + 1"), [parse_dynamic("batch:1-20")])


def test_inputs_tied_by_the_graph_but_not_by_name_are_refused() -> None:
    with pytest.raises(TaskError, match="does not serve"):
        dynamic_task(_task(), [parse_dynamic("rows=x:0:1-20")])


def test_a_live_module_names_its_arguments(tmp_path: Path) -> None:
    bilinear = nn.Bilinear(3, 3, 2)
    inputs = (torch.randn(5, 3), torch.randn(5, 3))
    live = task_from_module(bilinear, inputs, name="b", folder=tmp_path)
    task = dynamic_task(live, [parse_dynamic("a=input1:0,input2:0:1-9")])
    assert task.dynamic[0].axes == ((0, 0), (1, 0))
    assert all(found[0] == found[1] for found in _shapes(task).values())


def test_longer_inputs_are_further_draws() -> None:
    drawn = iter(range(100))
    (found,) = resized(lambda: [torch.full((2, 3), float(next(drawn)))], [[(0, 0)]], [5])
    assert found[:, 0].tolist() == [0.0, 0.0, 1.0, 1.0, 2.0]
    (found,) = resized(lambda: [torch.ones(4, 3).t()], [[(0, 0)], [(0, 1)]], [7, 2])
    assert tuple(found.shape) == (7, 2)


class Sized(nn.Module):
    """Returns a number of its input besides a tensor."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return torch.tanh(x), x.shape[self.axis]


def test_a_size_that_varies_is_no_result(tmp_path: Path) -> None:
    for axis in (0, 1):
        task = task_from_module(Sized(axis), (torch.rand(6, 4),), name="sized", folder=tmp_path)
        if axis == 1:
            assert dynamic_task(task, [parse_dynamic("batch:1-8")]).dynamic
            continue
        with pytest.raises(TaskError, match="sized: a result is a size that varies") as caught:
            dynamic_task(task, [parse_dynamic("batch:1-8")])
        assert "\n" not in str(caught.value)

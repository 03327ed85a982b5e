import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from kernelwright.core.errors import TaskError
from kernelwright.core.task import Mode, Task
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.live import task_from_module
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace
from kernelwright.tasks.resample import resample


class Scaled(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x))


def rebuilt(task: Task, workload: int = 0) -> tuple[nn.Module, list[torch.Tensor]]:
    namespace = load_namespace(task, task.workloads[workload])
    return construct_model(task, namespace, seed=1), draw_inputs(task, namespace, seed=1)


def test_the_shim_has_the_module_s_state_and_results(tmp_path: Path) -> None:
    module = Scaled(6).eval()
    task = task_from_module(module, (torch.randn(4, 6),), name="scaled", folder=tmp_path)
    model, inputs = rebuilt(task)
    assert task.mode is Mode.EVAL
    assert model.state_dict().keys() == module.state_dict().keys()
    torch.testing.assert_close(model(*inputs), module(*inputs))


def test_later_changes_of_the_module_do_not_reach_the_task(tmp_path: Path) -> None:
    module = Scaled(6)
    before = module.linear.weight.detach().clone()
    task = task_from_module(module, (torch.randn(4, 6),), name="scaled", folder=tmp_path)
    module.linear.weight.data.zero_()
    first, second = rebuilt(task)[0], rebuilt(task)[0]
    first.linear.weight.data.zero_()
    torch.testing.assert_close(second.linear.weight.detach(), before)


def test_mode_can_be_chosen_without_touching_the_module(tmp_path: Path) -> None:
    module = Scaled(6)
    task = task_from_module(module, (torch.randn(4, 6),), name="m", folder=tmp_path, mode=Mode.EVAL)
    assert not rebuilt(task)[0].norm.training
    assert module.training


def test_frozen_parts_of_a_training_module_stay_frozen(tmp_path: Path) -> None:
    module = Scaled(6)
    module.norm.eval()
    task = task_from_module(module, (torch.randn(4, 6),), name="m", folder=tmp_path)
    model = rebuilt(task)[0]
    assert model.training and not model.norm.training


def test_several_examples_become_several_workloads(tmp_path: Path) -> None:
    examples = [(torch.randn(4, 6),), (torch.randn(9, 6),)]
    task = task_from_module(Scaled(6), examples, name="m", folder=tmp_path)
    assert [tuple(rebuilt(task, i)[1][0].shape) for i in range(2)] == [(4, 6), (9, 6)]


def test_a_class_of_a_function_can_be_captured(tmp_path: Path) -> None:
    class Local(nn.Module):
        def forward(self, x: torch.Tensor, scale: float) -> torch.Tensor:
            return torch.relu(x) * scale

    task = task_from_module(Local(), (torch.randn(3, 5), 2.0), name="local", folder=tmp_path)
    captured = capture_task(task, task.workloads[0])
    assert [record.shape for record in captured.placeholders] == [(3, 5)]


@pytest.mark.slow
def test_a_class_of_main_loads_in_another_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\nfrom pathlib import Path\nfrom kernelwright.tasks.live import task_from_module\n"
        "class Doubled(torch.nn.Module):\n    def forward(self, x):\n        return 2 * x\n"
        "task = task_from_module(Doubled(), (torch.randn(3),), name='d', folder=Path(sys.argv[1]))\n"
        "sys.stdout.write(task.model_dump_json())\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=True
    )
    model, inputs = rebuilt(Task.model_validate_json(done.stdout))
    torch.testing.assert_close(model(*inputs), 2 * inputs[0])


def test_what_cannot_be_pickled_is_said_in_one_line(tmp_path: Path) -> None:
    module = Scaled(3)
    module.file = (tmp_path / "open").open("w")  # type: ignore[assignment]
    with pytest.raises(TaskError, match="cannot be pickled") as caught:
        task_from_module(module, (torch.randn(2, 3),), name="m", folder=tmp_path)
    module.file.close()
    assert "\n" not in str(caught.value)


def test_resampling_keeps_domains() -> None:
    torch.manual_seed(0)
    weights = torch.softmax(torch.randn(20, 7), -1)
    mask = (torch.rand(30, 4) < 0.5).float()
    ids = torch.randint(0, 50, (8, 8))
    offsets = torch.tensor([0, 3, 3, 9])
    fresh = resample({"w": weights, "m": mask, "i": ids, "o": offsets})
    torch.testing.assert_close(fresh["w"].sum(-1), torch.ones(20))
    assert set(fresh["m"].unique().tolist()) <= {0.0, 1.0}
    assert sorted(fresh["i"].flatten().tolist()) == sorted(ids.flatten().tolist())
    assert fresh["o"].tolist() == offsets.tolist()
    assert not torch.equal(fresh["w"], weights) and not torch.equal(fresh["i"], ids)


def test_resampling_keeps_layout_and_range() -> None:
    example = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
    fresh = resample(example)
    assert fresh.stride() == example.stride()
    assert example.min() <= fresh.min() and fresh.max() <= example.max()


def test_classes_that_are_pickled_with_their_code_stay_as_they_are(tmp_path: Path) -> None:
    class Local(nn.Module):  # pickled as one of a notebook is
        scale = 2.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    forward = Local.forward
    task = task_from_module(Local().eval(), (torch.randn(4),), name="local", folder=tmp_path)
    Local.scale = 3.0
    made, _ = rebuilt(task)
    assert isinstance(made, Local) and Local.forward is forward and Local.scale == 3.0
    alone = subprocess.run(
        [sys.executable, "-c", f"{task.source}\nx = torch.ones(2)\nprint(Model()(x).tolist())"],
        capture_output=True,
        text=True,
    )
    assert alone.stdout.strip() == "[2.0, 2.0]", alone.stderr


def test_a_tensor_that_torch_does_not_read_back_is_named(tmp_path: Path) -> None:
    module = nn.Linear(2, 2)
    module.register_buffer("small", torch.zeros(2).to(torch.float8_e4m3fn))
    with pytest.raises(TaskError, match=r"does not read tensors of torch\.float8_e4m3fn back"):
        task_from_module(module, (torch.randn(1, 2),), name="small", folder=tmp_path)

from collections.abc import Callable

import pytest
import torch
from torch import nn

from kernelwright.core.errors import CaptureError
from kernelwright.core.task import Mode, Task, Workload
from kernelwright.tasks.aten import op_name
from kernelwright.tasks.capture import Captured, capture_module, capture_task

HEAD = "import torch\nfrom torch import nn\n"
TAIL = "def get_inputs():\n    return [torch.randn(2, 3)]\ndef get_init_inputs():\n    return []\n"


def captured(model: str, mode: Mode = Mode.TRAIN, tail: str = TAIL) -> Captured:
    return capture_task(Task(name="t", source=HEAD + model + tail, mode=mode), Workload())


def test_constants_of_forward_keep_their_values() -> None:
    graph = captured(
        "class Model(nn.Module):\n    def forward(self, x):\n"
        "        return x + torch.tensor([1.0, 2.0, 3.0])\n"
    )
    assert [value.tolist() for value in graph.constants.values()] == [[1.0, 2.0, 3.0]]


def test_constructors_that_look_at_values_are_run_for_real() -> None:
    graph = captured(
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.scale = torch.full((1,), 3.0).item()\n"
        "    def forward(self, x):\n        return x * self.scale\n"
    )
    assert any(3.0 in node.args for node in graph.graph.nodes)


def test_inputs_too_large_for_any_memory_are_captured() -> None:
    tail = TAIL.replace("2, 3", "2**20, 2**20")
    graph = captured("class Model(nn.Module):\n    def forward(self, x):\n        return x + 1\n", tail=tail)
    assert graph.placeholders[0].shape == (2**20, 2**20)


def test_train_mode_reports_updated_buffers_and_eval_none() -> None:
    source = "class Model(nn.BatchNorm1d):\n    def __init__(self):\n        super().__init__(3)\n"
    assert set(captured(source).mutations) == {"running_mean", "running_var", "num_batches_tracked"}
    assert not captured(source, Mode.EVAL).mutations


def test_recurrent_layers_stay_one_node() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(4, 5, num_layers=2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = self.lstm(x)[0]
            return torch.relu(output)

    graph = capture_module(Recurrent(), (torch.randn(7, 2, 4),))
    assert "lstm" in [op_name(node) for node in graph.graph.nodes]


def test_a_tensor_given_twice_stays_two_arguments() -> None:
    class Product(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a @ b

    x = torch.randn(3, 3)
    graph = capture_module(Product(), (x, x))
    product = next(node for node in graph.graph.nodes if op_name(node) == "mm")
    assert product.args[0] is not product.args[1]


def test_data_dependent_control_flow_is_not_capturable() -> None:
    class Branching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(CaptureError, match=r"torch.export") as caught:
        capture_module(Branching(), (torch.randn(3),))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("is_bidirectional", [False, True])
@pytest.mark.parametrize("is_batch_first", [False, True])
def test_a_long_recurrence_is_one_node_with_eager_s_shapes(
    kind: type[nn.Module], is_bidirectional: bool, is_batch_first: bool
) -> None:
    model = kind(5, 7, num_layers=2, bidirectional=is_bidirectional, batch_first=is_batch_first)
    x = torch.randn(3, 4, 5)
    captured = capture_module(model, [x])
    want = torch.utils._pytree.tree_leaves(model(x))
    nodes = {node.name: node.meta.get("val") for node in captured.graph.nodes}
    got = [nodes[name] for name in captured.outputs if name is not None]
    assert [(x.shape, x.stride(), x.dtype) for x in got] == [(x.shape, x.stride(), x.dtype) for x in want]
    long = capture_module(kind(5, 7), [torch.randn(5000, 2, 5)])
    assert len(long.graph.nodes) < 30


def test_recurrences_outside_a_capture_are_computed() -> None:
    model, x = nn.LSTM(5, 7), torch.randn(3, 4, 5)
    before, kernels = model(x)[0], dict(torch.ops.aten.lstm.input.py_kernels)
    capture_module(model, [x])
    assert torch.equal(model(x)[0], before)
    assert torch.ops.aten.lstm.input.py_kernels == kernels


class Listing(nn.Module):
    """Reads tensors through a list."""

    def __init__(self, held: Callable[["Listing"], torch.Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.register_buffer("table", torch.ones(8))
        self.listed = [held(self)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * self.listed[0] * self.weight


@pytest.mark.parametrize("name", ["weight", "table"])
def test_a_weight_that_a_list_holds_is_read_as_the_weight(name: str) -> None:
    graph = capture_module(Listing(lambda m: getattr(m, name)), [torch.randn(4, 8)])
    assert not graph.constants
    assert [p.source for p in graph.placeholders] == ["weight", "table", 0]
    (node,) = (p.node for p in graph.placeholders if p.source == name)
    found = [n for n in graph.graph.nodes if op_name(n) == "mul" and node in map(str, n.args)]
    assert len(found) == (2 if name == "weight" else 1)


def test_a_tensor_that_only_a_list_holds_is_a_constant() -> None:
    graph = capture_module(Listing(lambda m: torch.full((8,), 2.0)), [torch.randn(4, 8)])
    assert len(graph.constants) == 1


def test_a_part_of_a_buffer_that_a_list_holds_is_not_capturable() -> None:
    with pytest.raises(CaptureError, match="a view of table that an attribute holds"):
        capture_module(Listing(lambda m: m.table[:1]), [torch.randn(4, 8)])  # type: ignore[index]


class Quantiles(nn.Module):
    def forward(self, x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        return torch.quantile(x, q, dim=1)


class FixedQuantiles(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q = torch.tensor([0.25, 0.75])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.quantile(x, self.q, dim=1)


def test_quantiles_are_captured_where_their_probabilities_are_known_and_end_no_process_elsewhere() -> None:
    x = torch.randn(8, 16)
    assert capture_module(FixedQuantiles(), (x,)).outputs
    with pytest.raises(CaptureError, match="quantile with a tensor `q` that is no constant"):
        capture_module(Quantiles(), (x, torch.tensor([0.5])))

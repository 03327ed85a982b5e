"""Graphs as data: an honest one comes back as it was; of others no line is believed."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from kernelwright.core.errors import CaptureError
from kernelwright.tasks.capture import Captured, capture_module
from kernelwright.tasks.graph_data import graph_document, read_graph

HOSTILE_NUMBERS = (-1, 1 << 40, 1 << 70, 0.5, True)


class Held(nn.Module):
    """Has all kinds of tensors: a parameter, a buffer, a plain attribute, literals."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("count", torch.zeros(()))
        self.plain = torch.arange(24.0).reshape(6, 4)

    def forward(self, x: torch.Tensor, power: float) -> tuple[torch.Tensor, torch.Tensor]:
        self.count += 1
        mask = torch.tril(torch.ones(6, 6))
        literal = torch.tensor([1.0, float("inf"), 3.0, 4.0])
        pieces = torch.split(torch.where(mask > 0, mask, -torch.inf).softmax(0) @ x, 3)
        return (pieces[0] * self.weight + literal) ** power, pieces[1] + self.plain[:3]


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.AvgPool2d(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x.contiguous(memory_format=torch.channels_last)).to(torch.float64)
        return found.transpose(1, 3)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.lstm(x)[0]
        return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)


GRAPHS: dict[str, Callable[[], Captured]] = {
    "held": lambda: capture_module(Held(), (torch.rand(6, 4), 2.0)),
    "convolved": lambda: capture_module(Convolved(), (torch.rand(2, 3, 9, 9),)),
    "recurrent": lambda: capture_module(Recurrent(), (torch.rand(7, 2, 4),)),
}


def sent(captured: Captured) -> Any:
    """Return the document as it comes out of the sandbox."""
    return json.loads(json.dumps(graph_document(captured).model_dump()))


def forms(captured: Captured) -> list[object]:
    def form(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return tuple(value.shape), tuple(value.stride()), value.dtype
        return [form(one) for one in value] if isinstance(value, list | tuple) else value

    return [form(node.meta.get("val")) for node in captured.graph.nodes]


@pytest.mark.parametrize("name", GRAPHS)
def test_an_honest_graph_comes_back_as_it_was(name: str) -> None:
    own = GRAPHS[name]()
    found = read_graph(sent(own))
    assert str(found.graph) == str(own.graph)
    assert [n.target for n in found.graph.nodes] == [n.target for n in own.graph.nodes]
    assert forms(found) == forms(own)
    for field in ("placeholders", "outputs", "returns_tuple", "mutations", "held"):
        assert getattr(found, field) == getattr(own, field), field


def test_what_the_module_holds_is_told_and_literals_come_with_their_values() -> None:
    found = read_graph(sent(GRAPHS["held"]()))
    assert found.held == {"plain"} and "plain" not in found.constants
    assert [one.tolist() for one in found.constants.values()] == [[1.0, float("inf"), 3.0, 4.0]]


def document(*nodes: dict[str, Any], shape: tuple[int, ...] = (4,), **fields: Any) -> dict[str, Any]:
    """Return a document with one input x and these calls; the last one is returned."""
    form = {"shape": shape, "stride": torch.empty(shape, device="meta").stride(), "dtype": "float32"}
    last = nodes[-1]["name"] if nodes else "x"
    return {
        "nodes": [
            {"name": "x", "op": "placeholder", "value": form},
            *({"op": "call_function", "value": form, **node} for node in nodes),
            {"name": "output", "op": "output", "args": {"tuple": [{"tuple": [{"node": last}]}]}},
        ],
        "inputs": [{"node": "x", "kind": "input", "source": 0, "form": form}],
        "outputs": [last],
        "returns_tuple": False,
        "mutations": {},
        "constants": {},
        "held": [],
        **fields,
    }


def call(target: str, *args: Any, name: str = "made", **fields: Any) -> dict[str, Any]:
    return {"name": name, "target": target, "args": {"tuple": list(args)}, **fields}


X = {"node": "x"}
BIG = {"shape": [1 << 13, 1 << 13], "stride": [1 << 13, 1], "dtype": "float32"}
HOSTILE = {
    "a file": call("aten.from_file.default", "/etc/passwd", False, 4),
    "a file of an innocent name": call("aten.from_file.default", "none", True, 4),
    "an effect": call("aten.add_.Tensor", X, X),
    "another library": call("profiler._record_function_enter_new.default", "tanh"),
    "no operator": call("aten.__class__.__init__", X),
    "a dotted way out": call("aten.add.Tensor.__globals__", X, X),
    "a composite": call("aten.einsum.default", "", [X]),
    "a lie about a shape": call("aten.cat.default", [X, X]),
    "a lie about a type": call("aten._to_copy.default", X, kwargs={"dtype": {"dtype": "int64"}}),
    "arguments of no sense": call("aten.mm.default", X, X),
    "a node to come": call("aten.add.Tensor", X, {"node": "later"}),
    "a device": call("aten._to_copy.default", X, kwargs={"device": {"device": "cuda"}}),
    "a name with an escape": call("aten.abs.default", X, name="a\x1b[2J"),
    "a name that is code": call("aten.abs.default", X, name="a);print(1"),
    "a huge number": call("aten.add.Scalar", X, 1 << 80),
    "a list too long": call("aten.cat.default", [X] * 5000),
    "nesting": call("aten.cat.default", [[[[[[[X]]]]]]]),
    "two kinds at once": call("aten.abs.default", {"node": "x", "dtype": "float32"}),
    "too large a tensor": call(
        "aten.full.default", [1 << 39, 1 << 39], 1.0, value={**BIG, "shape": [1 << 39, 1 << 39]}
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_call_is_refused_in_one_line(what: str) -> None:
    with pytest.raises(CaptureError) as refused:
        read_graph(document(HOSTILE[what]))
    line = str(refused.value)
    assert line.isprintable() and 0 < len(line) < 400


def test_constants_that_would_take_the_machine_are_not_computed() -> None:
    nodes = [call("aten.full.default", [1 << 13, 1 << 13], 1.0, name=f"c{n}", value=BIG) for n in range(8)]
    with pytest.raises(CaptureError, match="elements"):
        read_graph(document(*nodes))
    product = call("aten.mm.default", {"node": "c0"}, {"node": "c0"}, name="p", value=BIG)
    with pytest.raises(CaptureError, match="computes a constant with mm"):
        read_graph(document(nodes[0], product))


def test_a_tensor_is_not_taken_apart_into_millions() -> None:
    node = call("aten.unbind.int", X)
    with pytest.raises(CaptureError, match="apart"):
        read_graph(document(node, shape=(1 << 30,)))


@pytest.mark.parametrize(
    "change",
    [
        {"outputs": ["nobody"]},
        {"inputs": []},
        {"inputs": [{"node": "x", "kind": "parameter", "source": "a\nb", "form": BIG}]},
        {"mutations": {"state": "nobody"}},
        {"constants": {"c": {"form": BIG, "data": "AAAA"}}},
        {
            "constants": {
                "c": {"form": {"shape": [1], "stride": [1], "dtype": "float32"}, "data": "no base64!"}
            }
        },
        {"nodes": []},
        {"held": "abc"},
    ],
)
def test_what_stands_beside_the_nodes_is_checked_as_well(change: dict[str, Any]) -> None:
    with pytest.raises(CaptureError):
        read_graph({**document(call("aten.abs.default", X)), **change})


@pytest.mark.parametrize("said", [None, [], "graph", 7, {"nodes": 3}])
def test_no_document_is_no_graph(said: object) -> None:
    with pytest.raises(CaptureError):
        read_graph(said)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(HOSTILE_NUMBERS) | st.sampled_from([X, {"dtype": "float64"}, {"tuple": [X]}]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def paths_of(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the ways to all parts of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [before, *(path for key, part in items for path in paths_of(part, (*before, key)))]


WHOLE = sent(GRAPHS["held"]())
PATHS = paths_of(WHOLE)[1:]


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.sampled_from(PATHS), ANYTHING)
def test_a_document_changed_anywhere_is_a_graph_or_refused(path: tuple[Any, ...], value: Any) -> None:
    changed = copy.deepcopy(WHOLE)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    try:
        found = read_graph(changed)
    except CaptureError as refused:
        assert "\n" not in str(refused)
    else:
        assert all(node.op in ("placeholder", "call_function", "output") for node in found.graph.nodes)

"""Nested, named and plain arguments and results of delivered modules."""

import copy
import dataclasses
import json
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.delivery.delivering import delivered
from torch import nn

from kernelwright.core.errors import TaskError
from kernelwright.core.structure import (
    UnstructuredError,
    differences,
    flat_result,
    from_data,
    plain_from_data,
    plain_to_data,
    put_together,
    take_apart,
    to_data,
)
from kernelwright.delivery.runtime.contract import same_attribute

Pair = namedtuple("Pair", ["first", "second"])


@dataclasses.dataclass
class Output:
    """As models of other libraries return it."""

    logits: Any
    hidden: Any = None
    count: int = 0


class Nested(nn.Module):
    """Takes and returns everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 8))

    def forward(
        self,
        x: torch.Tensor,
        state: Any,
        *more: torch.Tensor,
        scale: float = 2.0,
        extra: Any = None,
        **named: Any,
    ) -> dict[str, Any]:
        hidden, cell = state
        y = torch.tanh(self.weight * x + hidden) * scale
        for tensor in (*more, *named.values()):
            y = y + tensor
        return {"y": y, "pair": Pair(y + cell["c"], None), "out": Output(y * 2, [y + 1], 3)}


def tensor(seed: int) -> torch.Tensor:
    return torch.randn((4, 8), generator=torch.Generator().manual_seed(seed))


def example() -> tuple[tuple[Any, ...], dict[str, Any]]:
    state = (tensor(1), {"c": tensor(2), 1: tensor(5)})
    return (tensor(0), state, tensor(3)), {"scale": 3.0, "late": tensor(4)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        args, kwargs = example()
        yield delivered(Nested().eval(), args, folder, kwargs).module


def assert_same(one: Any, other: Any) -> None:
    (shape, tensors), (shape_too, others) = (take_apart(v, torch.is_tensor) for v in (one, other))
    assert shape == shape_too
    torch.testing.assert_close(tensors, others)


def test_the_kernel_runs_and_its_result_has_the_original_s_structure(made: Any) -> None:
    fast, (args, kwargs) = copy.deepcopy(made), example()
    with torch.no_grad():
        assert_same(fast(*args, **kwargs), Nested()(*args, **kwargs))
        assert_same(fast(*args, extra=None, **kwargs), Nested()(*args, **kwargs))
        torch._dynamo.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = torch.compile(fast, fullgraph=True, backend="eager")
            assert_same(compiled(*args, **kwargs), Nested()(*args, **kwargs))
    assert fast.report().original_calls == 0


@pytest.mark.usefixtures("no_collection")
def test_results_go_with_their_last_name_without_a_garbage_collection(made: Any) -> None:
    fast, (args, kwargs) = copy.deepcopy(made), example()
    with torch.no_grad():
        for _ in range(2):
            result = fast(*args, **kwargs)
    parts = take_apart(result, torch.is_tensor)[1]
    held = [weakref.ref(part) for part in (*parts, *take_apart(args, torch.is_tensor)[1])]
    del result, parts, args, kwargs
    assert len(held) > 4 and not any(found() is not None for found in held)


CHANGES = st.sampled_from(
    ["scale", "list", "key", "equal", "more", "fewer", "none", "ordered", "named", "late", "type"]
)


@given(changes=st.sets(CHANGES, min_size=1, max_size=3), order=st.permutations(["scale", "late"]))
@settings(max_examples=40)
def test_other_structures_run_the_original(made: Any, changes: set[str], order: list[str]) -> None:
    args, kwargs = example()
    x, (hidden, cell), more = args
    state: Any = (hidden, cell)
    rest = [more]
    if "list" in changes:
        state = [hidden, cell]
    if "ordered" in changes:
        state = (hidden, OrderedDict(cell))
    if "key" in changes:
        state = (hidden, {**cell, "d": x})
    if "equal" in changes:  # 1 and True are equal
        state = (hidden, {"c": cell["c"], True: cell[1]})
    if "named" in changes:
        state = Pair(hidden, cell)
    if "scale" in changes:
        kwargs["scale"] = 4.0
    if "type" in changes:
        kwargs["scale"] = 3
    if "more" in changes:
        rest.append(x)
    if "fewer" in changes:
        rest = []
    if "none" in changes:
        kwargs["extra"] = "given"
    if "late" in changes:
        kwargs["later"] = kwargs.pop("late")
    ordered = {name: kwargs[name] for name in order if name in kwargs} | kwargs
    fast = copy.deepcopy(made)
    with torch.no_grad():
        assert_same(fast(x, state, *rest, **ordered), Nested()(x, state, *rest, **ordered))
    assert (fast.report().kernel_calls, fast.report().original_calls) == (0, 1)


LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(torch.ones(2))
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.builds(Output, inner, inner, st.integers()),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=8,
)


@given(VALUES)
def test_a_value_is_put_together_as_it_was(value: Any) -> None:
    structure, tensors = take_apart(value, torch.is_tensor)
    again = put_together(structure, tensors)
    assert repr(again) == repr(value)
    assert not list(differences(again, structure, torch.is_tensor))
    assert repr(from_data(to_data(structure))) == repr(structure)
    flat = flat_result(value, torch.is_tensor)
    assert flat is value or all(map(torch.is_tensor, flat))


@given(VALUES, VALUES)
def test_two_values_are_alike_only_with_equal_structures(one: Any, other: Any) -> None:
    structure, _ = take_apart(one, torch.is_tensor)
    is_alike = not list(differences(other, structure, torch.is_tensor))
    assert is_alike == (repr(take_apart(other, torch.is_tensor)[0]) == repr(structure)) or isinstance(
        one, dict
    )


def test_other_values_have_no_structure() -> None:
    for odd in (object(), {1.5: 2}, {"a": object()}, lambda: 1, {1, 2}):
        with pytest.raises(UnstructuredError):
            take_apart(odd, torch.is_tensor)


PLAIN = (
    [{0: 2.0, "a": 1, None: [True], 1.5: (), True: None, (1, "a"): 0, frozenset({1}): torch.float32}],
    {0: {1: {2.5: 3}}},
    OrderedDict({1: 2.0, 0: 3.0}),
    {1, "a", None, (2, 3)},
    ({3, 10, 2}, frozenset({"b", "a"}), {frozenset({1, 2}), frozenset({3})}),
    {"a": {"b": -0.0}},
)


@pytest.mark.parametrize("value", PLAIN)
def test_a_plain_value_comes_back_from_json(value: Any) -> None:
    data = json.loads(json.dumps(plain_to_data(value)))
    again = plain_from_data(data)
    assert again == value and same_attribute(again, value)
    assert data == json.loads(json.dumps(plain_to_data(again)))


def test_plain_values_have_the_form_that_earlier_folders_have() -> None:
    assert plain_to_data({"b": 1, "a": [2]}) == {"dict": [["b", 1], ["a", {"list": [2]}]]}
    assert plain_to_data({10, 9}) == {"set": [9, 10]}


@pytest.mark.parametrize("pair", [({0: 1}, {False: 1}), ({0: 1}, {0: True}), ([1], [True]), ({1}, {1.0})])
def test_equal_plain_values_of_other_types_are_others(pair: tuple[Any, Any]) -> None:
    assert pair[0] == pair[1] and not same_attribute(*pair)


class Names(nn.Module):
    """Its arguments have the names of what generated code might use."""

    def forward(
        self, state: torch.Tensor, case: torch.Tensor, out: float = 2.0, args: Any = None, a0: Any = None
    ) -> torch.Tensor:
        return torch.tanh(state) * case * out


def test_names_of_arguments_hide_nothing(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    fast: Any = delivered(Names().eval(), (tensor(0), tensor(1)), tmp_path).module
    checked = []
    monkeypatch.setattr(type(vars(fast)["_kernelwright"]), "bind", lambda *given: checked.append(given))
    with torch.no_grad():
        assert_same(fast(tensor(0), case=tensor(1)), Names()(tensor(0), tensor(1)))
    assert not checked and fast.report().kernel_calls == 1  # the generated checks alone decided


class Keywords(nn.Module):
    """Has names that Python's own grammar does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"in": nn.Tanh(), "a-b": nn.Linear(4, 4)})
        setattr(self, "lambda", 0.5)
        setattr(self, "drop-rate", 0.25)
        setattr(self, "and", [1.0])
        setattr(self, "for", lambda y: y + 1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers["a-b"](self.layers["in"](x)) * getattr(self, "lambda") + getattr(self, "and")[0]
        return getattr(self, "for")(y) * getattr(self, "drop-rate")


class KeywordWeights(Keywords):
    """Has weights and a constant under such names, too; torch.export takes none of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers["out"] = nn.Linear(4, 4)
        self.layers["not"] = nn.Sequential(nn.Linear(4, 4))
        self.register_parameter("class", nn.Parameter(torch.full((4,), 2.0)))
        self.register_buffer("is", torch.ones(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers["not"](self.layers["out"](super().forward(x)))
        return y * getattr(self, "class") + getattr(self, "is")


KEYWORD_WEIGHTS = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"in": nn.Tanh(), "a-b": nn.Linear(4, 4), "out": nn.Linear(4, 4)})
        self.layers["not"] = nn.Sequential(nn.Linear(4, 4))
        self.register_parameter("class", nn.Parameter(torch.ones(4)))

    def forward(self, x):
        y = (self.layers["a-b"](torch.tanh(x)) * 0.5 + 2.0) * 0.25
        return self.layers["not"](self.layers["out"](y)) * getattr(self, "class") + 1.0
"""


@pytest.mark.parametrize(("kind", "kernel"), [(Keywords, None), (KeywordWeights, KEYWORD_WEIGHTS)])
def test_keywords_and_other_words_are_names_too(
    kind: type[nn.Module], kernel: str | None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    m, x = kind().eval(), torch.randn(8, 4)
    fast: Any = delivered(m, (x,), tmp_path, source=kernel).module
    with torch.no_grad():
        torch.testing.assert_close(fast(x), m(x))
        assert (fast.report().kernel_calls, fast.report().original_calls) == (1, 0)
        for module in (m, fast):
            setattr(module, "drop-rate", 0.75)
        torch.testing.assert_close(fast(x), m(x))
        assert (fast.report().kernel_calls, fast.report().original_calls) == (1, 1)


def test_submodules_named_by_keywords_are_compiled(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    torch._dynamo.reset()
    m, x = nn.Sequential(OrderedDict({"in": nn.Tanh(), "a-b": nn.Linear(4, 4)})).eval(), torch.randn(8, 4)
    fast: Any = delivered(m, (x,), tmp_path).module
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(fast, fullgraph=True, backend="eager")(x), m(x))
    assert fast.report().kernel_calls == 1


@dataclasses.dataclass
class Doubled:
    """Changes what it is given."""

    y: torch.Tensor

    def __post_init__(self) -> None:
        self.y = self.y * 2


@dataclasses.dataclass
class Filled(OrderedDict[str, Any]):
    """Fills itself, as outputs of other libraries do, and keeps what it is given."""

    y: torch.Tensor
    more: list[torch.Tensor] | None = None

    def __post_init__(self) -> None:
        self.more = list(self.more or [])
        self["y"] = self.y


class Made(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Any) -> Any:
        return self.kind(torch.tanh(x if isinstance(x, torch.Tensor) else x.y))


def test_a_dataclass_that_its_constructor_makes_otherwise_is_refused(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(TaskError, match="returns a Doubled, whose constructor changes what it is given"):
        delivered(Made(Doubled).eval(), (tensor(0),), tmp_path)
    with pytest.raises(TaskError, match="holds a Doubled, whose constructor changes what it is given"):
        delivered(Made(torch.relu).eval(), (Doubled(tensor(0)),), tmp_path)
    m = Made(Filled).eval()
    fast: Any = delivered(m, (tensor(0),), tmp_path).module
    with torch.no_grad():
        got, want = fast(tensor(0)), m(tensor(0))
    torch.testing.assert_close(got["y"], want["y"])
    assert (got.more, got.keys()) == (want.more, want.keys()) and fast.report().kernel_calls == 1

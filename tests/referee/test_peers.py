"""What else a user could pick, as baselines; what computes otherwise has no figure."""

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from kernelwright.core.candidate import Candidate
from kernelwright.referee.baselines import PACKAGES, known_baselines
from kernelwright.referee.host.peers import make
from kernelwright.referee.host.peers.make import WrongOutputs, make_peer, require_same
from kernelwright.referee.session.referee import RefereeSession
from kernelwright.targets.device import PEERS, PROCESSOR

POINTWISE = "\n".join(
    (
        "import torch",
        "from torch import nn",
        "class ModelNew(nn.Module):",
        "    def forward(self, x): return torch.relu(x) * 2 + 1",
    )
)


def needs(name: str) -> Any:
    missing = [p for p in PACKAGES.get(name, ()) if importlib.util.find_spec(p) is None]
    return pytest.param(name, marks=pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}"))


INSTALLED = [needs(name) for name in PEERS]


class Pair(nn.Module):
    """Nested results, an input that is no tensor, and weights."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        return self.linear(x).relu(), [x.amax(1), ids + 1]


@pytest.fixture
def no_grad() -> Any:
    with torch.no_grad():
        yield


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTALLED)
def test_a_peer_is_called_like_the_reference(name: str, no_grad: None) -> None:
    model = Pair().eval()
    peer = make_peer(name, model, (torch.randn(16, 8), torch.arange(5)))
    args = torch.randn(8, 16).T, torch.arange(5) * 2
    require_same(peer(*args), model(*args))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Exporting a model while it is in training mode")
@pytest.mark.parametrize("name", INSTALLED)
def test_batch_norm_in_train_mode_is_batch_norm_in_train_mode_or_no_baseline(
    name: str, no_grad: None
) -> None:
    model = nn.BatchNorm2d(4)
    x = torch.randn(8, 4, 6, 6)
    try:
        peer = make_peer(name, model, (x,))
    except WrongOutputs:
        assert name != "torch_compile_frozen"
        return
    require_same(peer(x * 3), model(x * 3))


def made(monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any]) -> None:
    """Have ``call`` made of every reference."""
    monkeypatch.setattr(make, "_maker", lambda name: lambda model, args: call)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: torch.relu(x) * 1.001, "output 0 differs"),
        (lambda x: torch.relu(x).half(), "another form"),
        (lambda x: torch.relu(x)[:1], "another form"),
        (lambda x: (torch.relu(x), x), "returns 2 values"),
        (lambda x: torch.relu(x).clamp(max=1.0), "differs"),
    ],
)
def test_a_peer_that_computes_otherwise_is_none(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any], words: str, no_grad: None
) -> None:
    made(monkeypatch, call)
    with pytest.raises(WrongOutputs, match=words):
        make_peer("any", nn.ReLU(), (torch.linspace(-0.9, 0.9, 12).reshape(3, 4),))


def test_a_peer_that_leaves_buffers_as_they_are_is_none(
    monkeypatch: pytest.MonkeyPatch, no_grad: None
) -> None:
    model = nn.BatchNorm1d(3)
    made(monkeypatch, lambda x: nn.functional.batch_norm(x, None, None, model.weight, model.bias, True))
    before = {name: value.clone() for name, value in model.named_buffers()}
    with pytest.raises(WrongOutputs, match="differs"):
        make_peer("any", model, (torch.randn(6, 3),))
    assert all(torch.equal(value, before[name]) for name, value in model.named_buffers())


def test_infinities_must_lie_where_eagers_do() -> None:
    right = torch.tensor([1.0, float("inf")])
    require_same(right.clone(), right)
    with pytest.raises(WrongOutputs):
        require_same(torch.tensor([float("inf"), 1.0]), right)


def test_peers_are_baselines_of_the_processor_and_no_others_are_made(no_grad: None) -> None:
    assert set(PROCESSOR.baselines) == set(PEERS) <= set(known_baselines("cpu"))
    with pytest.raises(ValueError, match="no peer 'eager_tf32'"):
        make_peer("eager_tf32", nn.ReLU(), (torch.ones(2),))


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTALLED)
def test_candidates_are_timed_beside_peers(pointwise: RefereeSession, name: str) -> None:
    evaluation = pointwise.evaluate(Candidate(source=POINTWISE), baselines=("eager", name))
    assert evaluation.is_verified and not evaluation.missing_baselines
    assert evaluation.results[0].speedup(name) is not None


@pytest.mark.skipif(importlib.util.find_spec("openvino") is not None, reason="it is installed")
def test_a_baseline_that_cannot_be_made_is_named_with_the_reason(pointwise: RefereeSession) -> None:
    evaluation = pointwise.evaluate(Candidate(source=POINTWISE), baselines=("eager", "openvino"))
    assert evaluation.is_verified
    assert "openvino" in evaluation.missing_baselines["openvino"]
    assert any("baseline openvino is missing" in note for note in evaluation.notes)

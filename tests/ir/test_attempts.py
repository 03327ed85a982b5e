"""A graph that is lowered in several attempts: what one attempt finds out serves the next."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelwright.ir import lower as lowering
from kernelwright.ir.lower.calls import relay
from kernelwright.ir.lower.plan import RegionBuilder
from kernelwright.ir.lower.translate import translate
from kernelwright.tasks.capture import capture_module

from .lowering_checks import Wrap, check

X = torch.randn(2, 12, 12, 8, generator=torch.Generator().manual_seed(0))


def shifted_windows(x: torch.Tensor) -> torch.Tensor:
    rolled = torch.roll(F.gelu(x), (-1, -1), (1, 2))
    windows = rolled.view(2, 3, 4, 3, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 8)
    mixed = torch.softmax(windows * 2, 1).view(2, 3, 3, 4, 4, 8).permute(0, 1, 3, 2, 4, 5)
    return torch.roll(mixed.reshape(2, 12, 12, 8), (1, 1), (1, 2)) + x


def test_attempts_share_a_translation_unless_an_operator_is_left_to_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts, translations = [], []
    run = RegionBuilder.run

    def attempt(builder: RegionBuilder, extra: Any) -> Any:
        attempts.append(extra)
        return run(builder, extra)

    def translated(*args: Any, **options: Any) -> Any:
        translations.append(options["as_calls"])
        return translate(*args, **options)

    monkeypatch.setattr(RegionBuilder, "run", attempt)
    monkeypatch.setattr(lowering, "translate", translated)
    check(Wrap(shifted_windows), X)
    assert len(set(translations)) == len(translations) < len(attempts)


def test_an_attempt_starts_with_the_layouts_that_were_captured() -> None:
    captured = capture_module(Wrap(lambda x: torch.cummax(x, 0)[0].view(-1)), (torch.rand(4, 6),))
    graph = translate(captured, enabled=False, as_calls=frozenset())
    steps = list(graph.steps.values())
    before = [(s.node, s.is_view, [r.stride for r in s.results if r is not None]) for s in steps]
    for step in steps:
        relay(step, {n.name: (1, 4) for n in step.node.all_input_nodes})
    after = [(s.node, s.is_view, [r.stride for r in s.results if r is not None]) for s in steps]
    graph.restore()
    assert before != after
    assert before == [(s.node, s.is_view, [r.stride for r in s.results if r is not None]) for s in steps]


def test_a_graph_is_lowered_once_for_all_who_ask() -> None:
    captured = capture_module(Wrap(F.gelu), (torch.rand(4, 8),))
    again = capture_module(Wrap(F.gelu), (torch.rand(4, 8),))
    assert lowering.analyse(captured) is lowering.analyse(captured)
    assert lowering.analyse(captured) is not lowering.analyse(again)

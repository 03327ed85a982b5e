"""Capture small float64 modules, rewrite them, and compare what both graphs compute."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx, nn

from kernelwright.ir.rewrites import REWRITES
from kernelwright.tasks.capture import Captured, capture_module


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def capture(what: nn.Module | Callable[..., Any], *inputs: Any) -> Captured:
    """Capture a module or a function."""
    module = what if isinstance(what, nn.Module) else Function(what)
    return capture_module(module, inputs)


def randn(*size: int) -> torch.Tensor:
    """Draw float64 values."""
    return torch.randn(*size, dtype=torch.float64)


def targets(captured: Captured) -> list[str]:
    """Names of what the graph calls, in order."""
    calls = [n for n in captured.graph.nodes if n.op == "call_function"]
    return [getattr(n.target, "__name__", str(n.target)) for n in calls]


def run(captured: Captured, seed: int) -> dict[str, torch.Tensor]:
    """Run the graph on values drawn for every placeholder; outputs by position, mutations by name."""
    generator = torch.Generator().manual_seed(seed)
    values = [_value(captured, n, generator) for n in captured.graph.nodes if n.op == "placeholder"]
    found: dict[str, torch.Tensor] = {}

    class Recorder(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            result = super().run_node(n)
            found[n.name] = result
            if isinstance(result, torch.Tensor) and n.op != "placeholder":
                expected = n.meta["val"]
                assert result.shape == expected.shape, n.name
                assert result.dtype == expected.dtype, n.name
            return result

    with torch.no_grad():
        Recorder(fx.GraphModule({}, captured.graph)).run(*values)
    outputs = {str(i): found[n] for i, n in enumerate(captured.outputs) if n is not None}
    return outputs | {name: found[n] for name, n in captured.mutations.items()}


def _value(captured: Captured, node: fx.Node, generator: torch.Generator) -> Any:
    record = captured.placeholder(node.name)
    if record is None:
        return None
    if record.kind == "constant" and record.source in captured.constants:
        return captured.constants[str(record.source)]
    if not record.dtype.is_floating_point:
        return torch.randint(0, 2, record.shape, generator=generator).to(record.dtype)
    drawn = torch.randn(record.shape, dtype=record.dtype, generator=generator)
    return drawn.abs() + 0.1 if "running_var" in str(record.source) else drawn


def assert_same(before: Captured, after: Captured, seeds: Sequence[int] = (0, 1)) -> None:
    """Both graphs give the same outputs, layouts and buffer updates, and read the same placeholders."""
    names = [[n.name for n in c.graph.nodes if n.op == "placeholder"] for c in (before, after)]
    assert names[0] == names[1]
    for seed in seeds:
        old, new = run(before, seed), run(after, seed)
        assert old.keys() == new.keys()
        for name in old:
            torch.testing.assert_close(new[name], old[name], rtol=1e-9, atol=1e-9)
            assert new[name].stride() == old[name].stride(), name


def rewrite_and_check(name: str, what: nn.Module | Callable[..., Any], *inputs: Any) -> Captured:
    """Apply a rewrite everywhere and check every site alone; return the graph rewritten everywhere."""
    before = capture(what, *inputs)
    sites = REWRITES[name].sites(before)
    assert sites, f"{name} found no site"
    assert all(site.gain >= 1.0 and site.why for site in sites)
    for site in sites:
        after = REWRITES[name].apply(before, site.region)
        assert_same(before, after)
    everywhere = REWRITES[name].apply(before, "*")
    assert_same(before, everywhere)
    return everywhere


def assert_silent(name: str, what: nn.Module | Callable[..., Any], *inputs: Any) -> None:
    """The rewrite finds nothing to do."""
    assert REWRITES[name].sites(capture(what, *inputs)) == ()

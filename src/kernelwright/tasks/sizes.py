"""How large a task is: bytes per role, the peak while eager runs, and a rough eager time."""

import torch
from torch import fx

from kernelwright.core.frozen import Frozen
from kernelwright.tasks.anchors import ANCHORS, textbook_flops
from kernelwright.tasks.aten import VIEWS, op_name, source_of, stored_elements
from kernelwright.tasks.capture import Captured
from kernelwright.tasks.recurrent import RECURRENT

EAGER_BYTES_PER_MS = 8e6
"""Traffic of eager pointwise and reduction operators on two cores: 8 GB/s, transcendental ones included."""
EAGER_FLOPS_PER_MS = 120e6
"""Products of eager matrix products and convolutions on two cores: 120 GFLOP/s."""
_REPEATED = 3.0
"""How much more eager operators cost that make several passes or wide windows: norms, softmax, poolings."""
_MANY_PASSES = ("norm", "softmax", "pool", "cum", "logsumexp", "sort", "gelu")
_FREE = VIEWS | {"getitem", "split", "split_with_sizes", "slice", "select", "unbind"}


class SizeEstimate(Frozen):
    """Bytes and eager time of one workload, estimated from its graph without running it."""

    input_bytes: int
    parameter_bytes: int
    """Parameters and buffers."""
    output_bytes: int
    peak_bytes: int
    """Most bytes alive at once while eager runs without gradients, inputs and parameters included."""
    eager_ms: float
    """Order of magnitude on two cores, from the rates of this module."""


def estimate_sizes(captured: Captured) -> SizeEstimate:
    """Estimate from shapes alone."""
    by_kind = {"input": 0, "parameter": 0, "buffer": 0, "constant": 0}
    nodes = {node.name: node for node in captured.graph.nodes}
    for record in captured.placeholders:
        by_kind[record.kind] += _bytes(nodes[record.node])
    outputs = {source_of(nodes[name]) for name in captured.outputs if name is not None}
    resident = sum(by_kind.values())
    return SizeEstimate(
        input_bytes=by_kind["input"],
        parameter_bytes=by_kind["parameter"] + by_kind["buffer"],
        output_bytes=sum(_bytes(node) for node in outputs),
        peak_bytes=resident + _peak_of_computed(captured.graph),
        eager_ms=sum(_eager_ms(node) for node in captured.graph.nodes),
    )


def _bytes(node: fx.Node) -> int:
    value = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else [value]
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    return sum(stored_elements(tensor) * tensor.element_size() for tensor in tensors)


def _peak_of_computed(graph: fx.Graph) -> int:
    last_use: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        for source in node.all_input_nodes:
            last_use[source_of(source, _FREE)] = node
    dying: dict[fx.Node, list[fx.Node]] = {}
    for source, user in last_use.items():
        dying.setdefault(user, []).append(source)
    alive = peak = 0
    for node in graph.nodes:
        alive += _own_bytes(node)
        peak = max(peak, alive)
        alive -= sum(_own_bytes(source) for source in dying.get(node, []))
    return peak


def _own_bytes(node: fx.Node) -> int:
    is_computed = node.op == "call_function" and op_name(node) not in _FREE
    return _bytes(node) if is_computed else 0


def _eager_ms(node: fx.Node) -> float:
    written = _own_bytes(node)
    if not written:
        return 0.0
    moved = written + sum(_bytes(source) for source in node.all_input_nodes)
    name = op_name(node)
    if name in ANCHORS or node.target in RECURRENT:
        flops = textbook_flops(node) if name in ANCHORS else _recurrent_flops(node)
        return max(flops / EAGER_FLOPS_PER_MS, moved / EAGER_BYTES_PER_MS)
    passes = _REPEATED if any(word in name for word in _MANY_PASSES) else 1.0
    return passes * moved / EAGER_BYTES_PER_MS


def _recurrent_flops(node: fx.Node) -> float:
    """Every weight of a recurrent operator meets every step of every sequence."""
    source, _, parameters = node.args[:3]
    steps = stored_elements(source.meta["val"]) / source.meta["val"].shape[-1]  # type: ignore[union-attr]
    weights = [p.meta["val"] for p in parameters]  # type: ignore[union-attr]
    return float(2 * steps * sum(weight.numel() for weight in weights if weight.dim() == 2))

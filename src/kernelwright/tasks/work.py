"""The least that any implementation of a captured graph must compute and move.

Both figures are lower bounds on one call, for the roofline floor and for catching results that are
too good to be true:

- ``flops``: products of the anchors that no algebra removes (``tasks/anchors.py``), and one operation
  for each element read that arithmetic looks at. Pointwise chains count no further: they fold.
- ``min_bytes``: elements of the inputs that reach a result, each once (``tasks/needs.py``); weights of
  counted anchors; of the parameters that only meet pointwise operators the largest (affine chains of
  them fold into one); outputs and updated buffers. Rows picked by an index count nothing.

- ``functions``: evaluations of elementary functions on values of the inputs (``tasks/functions.py``).

Not a bound against Strassen-like products, whose error the referee would not accept as a rule.
"""

from collections.abc import Iterable

import torch
from torch import fx

from kernelwright.core.roofline import Work
from kernelwright.core.task import Task, TolerancePolicy
from kernelwright.tasks.anchors import AnchorWork, count_anchors, operands
from kernelwright.tasks.aten import VIEWS, Constants, op_name, source_of, stored_elements
from kernelwright.tasks.capture import Captured
from kernelwright.tasks.functions import count_functions
from kernelwright.tasks.needs import needed_shares

_MOVING = VIEWS | frozenset(
    (
        "getitem",
        "split",
        "split_with_sizes",
        "slice",
        "select",
        "cat",
        "clone",
        "flip",
        "roll",
        "repeat",
        "constant_pad_nd",
        "index",
        "gather",
        "index_select",
        "embedding",
        "slice_scatter",
        "select_scatter",
        "unbind",
        "output",
    )
)


def is_strict(task: Task, captured: Iterable[Captured]) -> bool:
    """Tell whether every product must be as exact as float32: by the contract and by the graphs."""
    if task.tolerance is not TolerancePolicy.STRICT:
        return False
    values = (node.meta.get("val") for found in captured for node in found.graph.nodes)
    return all(v.dtype.itemsize >= 4 for v in values if isinstance(v, torch.Tensor) and v.is_floating_point())


def count_work(captured: Captured, *, may_round: bool = False) -> Work:
    """Count the unavoidable operations, bytes and elementary functions of one call.

    ``may_round``: operands of products may be rounded to 16 bits.
    """
    constants = Constants()
    needs = needed_shares(captured, constants)
    updated = {record.node for record in captured.placeholders if record.source in captured.mutations}
    records = {record.node: record for record in captured.placeholders}
    kinds: dict[fx.Node, str] = {
        node: "input" if node.name in updated else records[node.name].kind
        for node in captured.graph.nodes
        if node.name in records
    }
    free = _free_nodes(captured.graph, kinds)
    anchors = count_anchors(captured.graph, needs, free, constants)
    read = {node: needs[node] * _bytes(node) for node, kind in kinds.items() if kind == "input"}
    looked_at = sum(
        needs[node] * stored_elements(node.meta["val"]) for node in read if _meets_arithmetic(node)
    )
    flops = sum(anchor.flops for anchor in anchors) + looked_at
    moved = sum(read.values()) + _parameter_bytes(anchors, free, kinds, needs) + _written_bytes(captured)
    return Work(
        flops=int(flops),
        min_bytes=int(moved),
        functions=tuple(sorted(count_functions(captured, needs).items())),
        may_round=may_round,
    )


def _bytes(node: fx.Node) -> int:
    value = node.meta.get("val")
    return stored_elements(value) * value.element_size() if isinstance(value, torch.Tensor) else 0


def _free_nodes(graph: fx.Graph, kinds: dict[fx.Node, str]) -> set[fx.Node]:
    """Nodes that depend on parameters, unchanging buffers and constants alone."""
    free: set[fx.Node] = set()
    for node in graph.nodes:
        is_source = node.op == "placeholder" and kinds.get(node, "input") != "input"
        is_derived = node.op == "call_function" and all(source in free for source in node.all_input_nodes)
        if is_source or is_derived:
            free.add(node)
    return free


def _parameter_bytes(
    anchors: tuple[AnchorWork, ...],
    free: set[fx.Node],
    kinds: dict[fx.Node, str],
    needs: dict[fx.Node, float],
) -> float:
    """Weights of the counted anchors, and the largest of the other values computed from parameters."""
    weights = {
        source_of(operand): anchor.share
        for anchor in anchors
        for operand in operands(anchor.node)
        if operand in free
    }
    frontier = {
        source_of(node)
        for node in free
        if any(user not in free and user.op != "output" for user in node.users)
    }
    others = [_least_bytes(node, kinds) * needs[node] for node in frontier - weights.keys()]
    return sum(_least_bytes(node, kinds) * share for node, share in weights.items()) + max(
        others, default=0.0
    )


def _least_bytes(node: fx.Node, kinds: dict[fx.Node, str]) -> int:
    """Bytes of a value computed from parameters, or of those parameters where they are fewer."""
    sources: set[fx.Node] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current in kinds and kinds[current] != "constant":
            sources.add(current)
        waiting.extend(current.all_input_nodes)
    return min(_bytes(node), sum(_bytes(source) for source in sources))


def _written_bytes(captured: Captured) -> int:
    nodes = {node.name: node for node in captured.graph.nodes}
    names = [*captured.outputs, *captured.mutations.values()]
    written = {source_of(nodes[name]): nodes[name] for name in names if name is not None}
    return sum(
        min(_bytes(source), _bytes(node)) if source is not node else _bytes(node)
        for source, node in written.items()
        if source.op != "placeholder" and source.all_input_nodes
    )


def _meets_arithmetic(node: fx.Node) -> bool:
    return any(
        op_name(user) not in _MOVING or (op_name(user) in _MOVING and _meets_arithmetic(user))
        for user in node.users
    )

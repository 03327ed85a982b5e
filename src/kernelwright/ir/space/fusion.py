"""How a graph may be cut at each operator: stored or computed again, joined or apart, ours or torch's."""

from math import prod

from torch import fx

from kernelwright.core.plan import ParamValue
from kernelwright.ir import fusion_edits
from kernelwright.ir.decisions import Decision
from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.fusion_edits import OWN_PRODUCT, OWN_RECURRENCE, product_size
from kernelwright.ir.lower import analyse
from kernelwright.ir.lower.plan import Lowered
from kernelwright.ir.lower.values import Inline, Value, domain
from kernelwright.ir.lowering import Lowering
from kernelwright.tasks.capture import Captured

OURS, TORCH = "generated", "torch"
INLINE, STORED, JOINED, APART = "inline", "stored", "joined", "apart"
EDITS: dict[ParamValue, str] = {
    STORED: "fusion:materialise-value",
    INLINE: "fusion:inline-producer",
    APART: "fusion:split-region",
    TORCH: "fusion:keep-call",
}
"""Value that is not the default -> the edit that carries it out at the node."""
FUSION, LIBRARY = "fusion", "library"


def fusion_decisions(captured: Captured, lowering: Lowering) -> tuple[Decision, ...]:
    """Return what is left to decide of every operator that code is generated for, or could be."""
    lowered = analyse(captured, FusionOptions())
    products = fusion_edits.own_products(captured) if lowering.own_products else ()
    found = [_ours(node, OWN_PRODUCT, f"the library multiplies {product_size(node)}") for node in products]
    layers = fusion_edits.own_recurrences(captured) if lowering.own_recurrences else ()
    found += [_ours(node, OWN_RECURRENCE, "the library carries the recurrent layer out") for node in layers]
    for node in captured.graph.nodes:
        found += [d for d in (_owner(lowered, node.name), _cut(lowered, node.name)) if d is not None]
    return tuple(found)


def _ours(node: fx.Node, edit: str, why: str) -> Decision:
    """Return whether the library or our code carries out what the library does by default."""
    return Decision(f"own.{node.name}", LIBRARY, f"fusion:{edit}", node.name, (TORCH, OURS), TORCH, why)


def _owner(lowered: Lowered, node: str) -> Decision | None:
    """Return whether our code or torch's carries an operator out."""
    values = [v for g in lowered.fusion.groups for v in (*g.values, *g.draft.evaluated) if v.node == node]
    if not values or all(isinstance(v, Inline) and v.is_view for v in values):
        return None
    why = f"our code computes {max(prod(domain(v)) for v in values)} points of it"
    return _decision(LIBRARY, f"own.{node}", node, (OURS, TORCH), OURS, why)


def _cut(lowered: Lowered, node: str) -> Decision | None:
    """Return whether the edge from an operator to its readers is cut, and how."""
    for group in lowered.fusion.groups:
        first = group.values[0]
        for value in group.values:
            if value.node != node or _is_store(lowered, value):
                continue
            if value is not first and value.node != first.node:
                why = f"it shares a region with {len(group.values) - 1} other stages"
                return _decision(FUSION, f"cut.{node}", node, (JOINED, APART), JOINED, why)
    own = lowered.graph.values.get(node)
    if not isinstance(own, Inline):
        return None
    readers = sum(1 for g in lowered.fusion.groups if own in g.draft.evaluated)
    if own in lowered.chosen:
        why = f"its {prod(own.shape)} values are written once for their readers"
        return _decision(FUSION, f"cut.{node}", node, (STORED, INLINE), STORED, why)
    if readers == 0 or any(own in g.values for g in lowered.fusion.groups):
        return None
    why = f"its {prod(own.shape)} values are computed where {readers} regions read them"
    view: dict[ParamValue, str] = {STORED: "a change of index has no values of its own"}
    illegal = view if own.is_view else {}
    return _decision(FUSION, f"cut.{node}", node, (INLINE, STORED), INLINE, why, illegal)


def _is_store(lowered: Lowered, value: Value) -> bool:
    return isinstance(value, Inline) and value in lowered.chosen


def _decision(
    factor: str,
    name: str,
    node: str,
    values: tuple[ParamValue, ...],
    default: ParamValue,
    why: str,
    illegal: dict[ParamValue, str] | None = None,
) -> Decision:
    other = next(v for v in values if v != default)
    return Decision(name, factor, EDITS[other], node, values, default, why, illegal=illegal or {})

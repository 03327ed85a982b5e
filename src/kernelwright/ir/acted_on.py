"""Where a skill of guidance could act: named kinds of places in a graph and its program.

A skill that an edit carries out has the edit's sites. A skill in words alone names in its file what it acts
on (``acts_on``); the compiler answers with the nodes, regions and buffers of that kind.
"""

from collections.abc import Callable, Iterator

import torch
from torch import fx

from kernelwright.core.skill import ANY_KERNEL
from kernelwright.ir.facts import (
    ATTENTIONS,
    CONVOLUTIONS,
    MATMULS,
    MOVES,
    REDUCTIONS,
    SCANS,
    SLOW_POINTWISE,
    WINDOWS,
    operator,
)
from kernelwright.ir.lower.expressions import walk
from kernelwright.ir.plan_lowering import LoweredPlan
from kernelwright.ir.program import Call, Const, Expr, IndexValue, Inside, Load, Op, Region
from kernelwright.ir.rewrites import REWRITES

SCATTERS = frozenset(
    [
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "index_add",
        "index_put",
        "embedding_bag",
        "bincount",
        "histc",
    ]
)
"""Operators in which several elements may meet at one place."""
SELECTIONS = frozenset(["topk", "kthvalue", "sort"])
MASKS = frozenset(["tril", "triu", "masked_fill"])
COMPARISONS = frozenset(["lt", "le", "gt", "ge", "eq", "ne"])
VECTOR = 16
"""Elements that a lane or a vector moves at a time, at most; rows that are no multiple of it have a rest."""
CHANNEL_BYTES = 512
"""Row strides that are multiples of it send all rows to the same memory channels."""

Found = Iterator[str]


def places(lowered: LoweredPlan, kind: str) -> tuple[str, ...]:
    """Return the names of the places of a kind, empty where there is none; KeyError for an unknown kind."""
    return tuple(dict.fromkeys(KINDS[kind](lowered)))


def _operator(node: fx.Node) -> str:
    return (operator(node) or "").rstrip("_")


def _nodes(names: frozenset[str]) -> Callable[[LoweredPlan], Found]:
    def find(lowered: LoweredPlan) -> Found:
        return (node.name for node in lowered.captured.graph.nodes if _operator(node) in names)

    return find


def _regions(lowered: LoweredPlan) -> Iterator[Region]:
    return (step for step in lowered.program.steps if isinstance(step, Region))


def _kernels(lowered: LoweredPlan) -> Found:
    return (region.name for region in _regions(lowered))


def _launches(lowered: LoweredPlan) -> Found:
    """Yield the kernels and calls, where there is more than one."""
    found = [s.name for s in lowered.program.steps if isinstance(s, Region) or not s.is_view]
    yield from found if len(found) > 1 else ()


def _small_windows(lowered: LoweredPlan) -> Found:
    """Yield the convolutions of 3 x 3 with stride 1."""
    for node in lowered.captured.graph.nodes:
        if _operator(node) == "convolution":
            shape = tuple(node.args[1].meta["val"].shape)
            if shape[2:] == (3, 3) and set(node.args[3]) == {1} and not node.args[6]:
                yield node.name


def _direct_windows(lowered: LoweredPlan) -> Found:
    """Yield the pools, and the convolutions in groups."""
    for node in lowered.captured.graph.nodes:
        name = _operator(node)
        if name in WINDOWS or (name == "convolution" and int(node.args[8]) > 1):
            yield node.name


def _masked(lowered: LoweredPlan) -> Found:
    """Yield what leaves part of a tensor without effect: triangles, masks, causal attention."""
    for node in lowered.captured.graph.nodes:
        has_mask = len(node.args) > 3 or node.kwargs.get("attn_mask") is not None
        is_causal = node.kwargs.get("is_causal") or (len(node.args) > 5 and node.args[5])
        if _operator(node) in MASKS or (_operator(node) in ATTENTIONS and (has_mask or is_causal)):
            yield node.name
    for region in _regions(lowered):
        if any(_is_triangle(expr) for stage in region.stages for expr in walk([stage.expr])):
            yield region.name


def _is_triangle(expr: Expr) -> bool:
    """Tell whether a condition compares places along two axes, and nothing else."""
    if isinstance(expr, Inside):
        return any(len(bound.index.terms) > 1 for bound in expr.bounds)
    if not isinstance(expr, Op) or expr.name not in COMPARISONS:
        return False
    parts = list(walk([expr]))
    along = {axis for part in parts if isinstance(part, IndexValue) for axis, _ in part.index.terms}
    return len(along) > 1 and all(isinstance(part, Op | IndexValue | Const) for part in parts)


def _attentions(lowered: LoweredPlan) -> Found:
    """Yield the attentions, and those that are spelled out."""
    yield from _nodes(ATTENTIONS)(lowered)
    yield from (site.region for site in REWRITES["fused_attention"].sites(lowered.captured))


def _before_pointwise(lowered: LoweredPlan) -> Found:
    """Yield the products and convolutions whose result goes into pointwise work."""
    for node in lowered.captured.graph.nodes:
        if _operator(node) in MATMULS | CONVOLUTIONS and any(map(_is_pointwise, node.users)):
            yield node.name


def _is_pointwise(node: fx.Node) -> bool:
    others = MATMULS | CONVOLUTIONS | ATTENTIONS | SCANS | REDUCTIONS | WINDOWS | MOVES
    return bool(_operator(node)) and _operator(node) not in others


def _unfused(lowered: LoweredPlan) -> Found:
    """Yield the intermediates that a kernel writes and another reads, but for results of library products."""
    program = lowered.program
    anchors = MATMULS | CONVOLUTIONS | ATTENTIONS
    by_library = {
        name
        for step in program.steps
        if isinstance(step, Call)
        and (step.is_view or step.target.removeprefix("torch.ops.aten.").split(".")[0] in anchors)
        for name in step.results
    }
    final = {*program.outputs, *(name for _, name in program.mutations), *by_library}
    return (b.name for b in program.buffers if b.kind == "temporary" and b.name not in final)


def _loads(region: Region) -> Iterator[Load]:
    for stage in region.stages:
        yield from (expr for expr in walk([stage.expr]) if isinstance(expr, Load))


def _strided(lowered: LoweredPlan) -> Found:
    """Yield the regions that read along some axis by steps, and along none one by one."""
    for region in _regions(lowered):
        sizes = {axis.name: axis.size for axis in (*region.kept, *region.inner)}
        for load in _loads(region):
            steps = {abs(step) for axis, step in load.index.terms if sizes.get(axis, 1) > 1}
            if steps and 1 not in steps:
                yield region.name


def _ragged(lowered: LoweredPlan) -> Found:
    """Yield the regions of which no axis is as long as whole vectors are."""
    for region in _regions(lowered):
        if all(axis.size % VECTOR for axis in (*region.kept, *region.inner)):
            yield region.name


def _branching(lowered: LoweredPlan) -> Found:
    """Yield the regions in which lanes may part: selections, borders, triangles."""
    for region in _regions(lowered):
        if any(_parts_lanes(expr) for stage in region.stages for expr in walk([stage.expr])):
            yield region.name


def _parts_lanes(expr: Expr) -> bool:
    match expr:
        case Inside() | Op(name="where"):
            return True
        case Load(bounds=bounds):
            return bool(bounds)
        case _:
            return False


def _indexed(lowered: LoweredPlan) -> Found:
    """Yield the regions whose addresses take more than rows and columns."""
    return (region.name for region in _regions(lowered) if len(region.kept) + len(region.inner) > 2)


def _aliased_rows(lowered: LoweredPlan) -> Found:
    """Yield the products of which an operand's rows all begin in one memory channel."""
    for node in lowered.captured.graph.nodes:
        if _operator(node) in MATMULS:
            values = [n.meta.get("val") for n in node.all_input_nodes]
            matrices = [v for v in values if isinstance(v, torch.Tensor) and v.dim() > 1]
            if any(v.shape[-1] * v.element_size() % CHANNEL_BYTES == 0 for v in matrices):
                yield node.name


KINDS: dict[str, Callable[[LoweredPlan], Found]] = {
    ANY_KERNEL: _kernels,
    "launches": _launches,
    "product": _nodes(MATMULS),
    "convolution": _nodes(CONVOLUTIONS),
    "small-window": _small_windows,
    "direct-window": _direct_windows,
    "reuse": _nodes(MATMULS | CONVOLUTIONS | WINDOWS | ATTENTIONS),
    "library-call": _nodes(MATMULS | CONVOLUTIONS | ATTENTIONS),
    "epilogue": _before_pointwise,
    "reduction": _nodes(REDUCTIONS),
    "sum": _nodes(REDUCTIONS | MATMULS | CONVOLUTIONS),
    "scan": _nodes(SCANS),
    "transcendental": _nodes(SLOW_POINTWISE),
    "scatter": _nodes(SCATTERS),
    "selection": _nodes(SELECTIONS),
    "attention": _attentions,
    "masked": _masked,
    "unfused": _unfused,
    "strided": _strided,
    "ragged": _ragged,
    "branching": _branching,
    "indexed": _indexed,
    "aliased-rows": _aliased_rows,
}
"""What a skill's ``acts_on`` may name."""

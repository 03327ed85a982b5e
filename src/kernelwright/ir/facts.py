"""Evidence about a program's structure, under the names of core.evidence.METRICS."""

from collections import Counter
from collections.abc import Iterable
from math import prod

import torch
from torch import fx

from kernelwright.core.evidence import FactValue
from kernelwright.ir.lower.expressions import walk
from kernelwright.ir.program import TRANSCENDENTALS, Call, LoopStage, Op, Program, Region
from kernelwright.tasks.capture import Captured

ELEMENT_BYTES = {
    "float64": 8, "int64": 8, "complex64": 8, "float32": 4, "int32": 4,
    "float16": 2, "bfloat16": 2, "int16": 2,
}  # fmt: skip
"""Bytes per element by torch's name of the dtype; other dtypes have one."""

MATMULS = frozenset(["mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "linear", "matmul"])
CONVOLUTIONS = frozenset(["convolution"])
ATTENTIONS = frozenset(["scaled_dot_product_attention"])
SCANS = frozenset(["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
REDUCTIONS = frozenset(
    [
        "sum",
        "mean",
        "prod",
        "amax",
        "amin",
        "max",
        "min",
        "argmax",
        "argmin",
        "any",
        "all",
        "var",
        "var_mean",
        "std",
        "logsumexp",
        "linalg_vector_norm",
        "_softmax",
        "_log_softmax",
        "native_layer_norm",
        "native_group_norm",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training",
        "_fused_rms_norm",
    ]
)
WINDOWS = frozenset(
    [
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "_adaptive_avg_pool2d",
        "_adaptive_avg_pool3d",
        "adaptive_avg_pool1d",
        "adaptive_avg_pool2d",
    ]
)
SLOW_POINTWISE = TRANSCENDENTALS | {"gelu", "silu", "mish", "elu", "_softmax", "_log_softmax"}
MOVES = frozenset(
    [
        "view",
        "reshape",
        "permute",
        "transpose",
        "t",
        "expand",
        "unsqueeze",
        "squeeze",
        "slice",
        "select",
        "clone",
        "alias",
        "detach",
        "unfold",
        "split",
        "split_with_sizes",
        "unbind",
        "full",
        "full_like",
        "zeros",
        "ones",
        "zeros_like",
        "ones_like",
        "scalar_tensor",
        "arange",
        "_to_copy",
    ]
)
"""Operators without arithmetic of their own."""

MAX_CHAIN_ANCHORS = 2
"""Graphs with more anchors than this are networks, ``mixed``."""


def program_facts(captured: Captured, program: Program) -> dict[str, FactValue]:
    """Return the ``graph.*`` and ``program.*`` metrics."""
    counts = _counts(captured)
    calls = [step for step in program.steps if isinstance(step, Call) and not step.is_view]
    opaque = [call for call in calls if _kind_of(call.target) != "anchor"]
    regions = [step for step in program.steps if isinstance(step, Region)]
    return {
        "graph.n_pointwise": counts["pointwise"],
        "graph.n_reductions": counts["reduction"],
        "graph.n_scans": counts["scan"],
        "graph.n_windows": counts["window"],
        "graph.n_matmuls": counts["matmul"],
        "graph.n_convolutions": counts["convolution"],
        "graph.n_attentions": counts["attention"],
        "graph.n_transcendentals": counts["transcendental"],
        "graph.n_opaque": len(opaque),
        "graph.anchor_flops_fraction": _anchor_fraction(captured, regions),
        "graph.structure": _structure(counts),
        "program.n_regions": len(regions),
        "program.materialised_bytes": materialised_bytes(program),
    }


def materialised_bytes(program: Program) -> int:
    """Return the bytes of intermediate tensors that a call writes to memory."""
    final = {*program.outputs, *(name for _, name in program.mutations)}
    views = {
        name for step in program.steps if isinstance(step, Call) and step.is_view for name in step.results
    }
    return sum(
        prod(b.shape) * ELEMENT_BYTES.get(b.dtype, 1)
        for b in program.buffers
        if b.kind == "temporary" and b.name not in final and b.name not in views
    )


def operator(node: fx.Node) -> str | None:
    """Return the name of the ATen operator that a node calls, without its overload; None for other nodes."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return None
    return str(target._opname)


def _kind_of(target: str) -> str:
    """Return ``anchor`` for a library product, ``other`` for everything else."""
    name = target.removeprefix("torch.ops.aten.").split(".")[0]
    return "anchor" if name in MATMULS | CONVOLUTIONS | ATTENTIONS else "other"


def _counts(captured: Captured) -> Counter[str]:
    counts: Counter[str] = Counter()
    for node in captured.graph.nodes:
        name = operator(node)
        if name is None or name.startswith("_assert"):
            continue
        counts[_class_of(name)] += 1
        counts["transcendental"] += name in SLOW_POINTWISE
    return counts


def _class_of(name: str) -> str:
    classes = (
        ("matmul", MATMULS), ("convolution", CONVOLUTIONS), ("attention", ATTENTIONS), ("scan", SCANS),
        ("reduction", REDUCTIONS), ("window", WINDOWS), ("move", MOVES),
    )  # fmt: skip
    return next((kind for kind, names in classes if name in names), "pointwise")


def _structure(counts: Counter[str]) -> str:
    anchors = counts["matmul"] + counts["convolution"] + counts["attention"]
    loops = [kind for kind in ("reduction", "scan", "window") if counts[kind]]
    if anchors:
        alone = not loops and not counts["pointwise"]
        return "anchor" if alone else "anchor_chain" if anchors <= MAX_CHAIN_ANCHORS else "mixed"
    return "mixed" if len(loops) > 1 else loops[0] if loops else "pointwise"


def _anchor_fraction(captured: Captured, regions: Iterable[Region]) -> float | None:
    anchored = sum(_anchor_flops(node) for node in captured.graph.nodes)
    generated = sum(_stage_flops(region, stage) for region in regions for stage in region.stages)
    total = anchored + generated
    return anchored / total if total else None


def _stage_flops(region: Region, stage: LoopStage) -> int:
    sizes = {axis.name: axis.size for axis in region.inner}
    points = prod(axis.size for axis in region.kept) * prod(sizes[name] for name in stage.axes)
    operations = sum(isinstance(expr, Op) for expr in walk([stage.expr]))
    return points * (operations + (stage.kind != "map"))


def _anchor_flops(node: fx.Node) -> int:
    name = operator(node)
    value = node.meta.get("val")
    if name is None or not isinstance(value, torch.Tensor):
        return 0
    shapes = [_shape(arg) for arg in node.args if isinstance(arg, fx.Node)]
    elements = prod(value.shape)
    if name in MATMULS:
        left = shapes[-2] if len(shapes) > 1 else shapes[0]
        return 2 * elements * left[-1]
    if name in CONVOLUTIONS:
        weight = shapes[1]
        outputs = prod(shapes[0]) if node.args[6] else elements  # transposed: work per input
        return 2 * outputs * prod(weight[1:])
    if name in ATTENTIONS:
        return 4 * elements * shapes[1][-2]
    return 0


def _shape(node: fx.Node) -> tuple[int, ...]:
    return tuple(int(n) for n in node.meta["val"].shape)

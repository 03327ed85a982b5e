"""How much of each tensor a right implementation must look at: backwards from what is returned.

Every share is a lower bound. Where it depends on values (rows picked by an index) it is zero.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import fx

from kernelwright.tasks.aten import Constants, numel, op_name, source_of
from kernelwright.tasks.capture import Captured
from kernelwright.tasks.windows import convolution_axes, pooling_axes

_VALUE_BLIND = frozenset(
    (
        "full_like",
        "zeros_like",
        "ones_like",
        "empty_like",
        "rand_like",
        "randn_like",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty",
        "sym_size",
        "sym_numel",
        "sym_stride",
    )
)
_PICKING = frozenset(
    (
        "index",
        "gather",
        "embedding",
        "index_select",
        "take",
        "take_along_dim",
        "as_strided",
        "unfold",
    )
)
_SPLITTING = frozenset(
    (
        "split",
        "split_with_sizes",
        "unbind",
        "chunk",
    )
)

_Rule = Callable[[fx.Node, fx.Node, float, Constants], float]


def needed_shares(captured: Captured, constants: Constants) -> dict[fx.Node, float]:
    """Return for each node the least share of its elements that reaches an output or a buffer.

    A returned view of an input needs no element of it.
    """
    nodes = {node.name: node for node in captured.graph.nodes}
    wanted = [name for name in (*captured.outputs, *captured.mutations.values()) if name is not None]
    needs = dict.fromkeys(nodes.values(), 0.0)
    for name in wanted:
        if source_of(nodes[name]).op != "placeholder":
            needs[nodes[name]] = 1.0
    for node in reversed(captured.graph.nodes):
        if op_name(node) in _SPLITTING:
            needs[node] = _split_need(node, needs)
            continue
        shares = [_share(user, node, needs[user], constants) for user in node.users if user.op != "output"]
        needs[node] = max([needs[node], _sliced_share(node, needs), *shares])
    return needs


def _share(user: fx.Node, node: fx.Node, need: float, constants: Constants) -> float:
    name = op_name(user)
    if need == 0.0 or name in _VALUE_BLIND:
        return 0.0
    if name.startswith(("upsample", "grid_sampler")):
        return 0.0
    if "pool" in name and "adaptive" not in name:
        return _windowed(pooling_axes(user), need)
    rule = _RULES.get(name)
    return rule(user, node, need, constants) if rule else need


def _windowed(axes: tuple[object, ...], need: float) -> float:
    if need < 1.0:
        return 0.0
    return float(np.prod([axis.taps()[1] / axis.size for axis in axes]))  # type: ignore[attr-defined]


def _picked(user: fx.Node, node: fx.Node, need: float, constants: Constants) -> float:
    is_only_source = user.args[0] is node and node not in user.all_input_nodes[1:]
    return 0.0 if is_only_source and not _picks_from_each_row(user, node) else need


def _picks_from_each_row(user: fx.Node, node: fx.Node) -> bool:
    """True for one element of every softmax row: each depends on its whole row."""
    if op_name(user) != "gather" or op_name(node) not in ("_softmax", "_log_softmax"):
        return False
    n_axes = node.meta["val"].dim()
    axis, normal_axis = (int(a) % n_axes for a in (user.args[1], node.args[1]))  # type: ignore[arg-type]
    expected = list(node.meta["val"].shape)
    expected[axis] = user.meta["val"].shape[axis]
    return axis == normal_axis and list(user.meta["val"].shape) == expected


def _cut(user: fx.Node, node: fx.Node, need: float, constants: Constants) -> float:
    return need * numel(user) / max(numel(node), 1)


def _joined(user: fx.Node, node: fx.Node, need: float, constants: Constants) -> float:
    others = numel(user) - numel(node)
    return max(0.0, need * numel(user) - others) / max(numel(node), 1)


def _scattered(user: fx.Node, node: fx.Node, need: float, constants: Constants) -> float:
    source = user.args[1]
    is_source = source is node
    others = numel(user) - numel(source) if is_source else numel(source)  # type: ignore[arg-type]
    return max(0.0, need * numel(user) - others) / max(numel(node), 1)


def _padded(user: fx.Node, node: fx.Node, need: float, constants: Constants) -> float:
    pads = [int(n) for n in user.args[1]]  # type: ignore[union-attr, arg-type]
    kept = [int(n) for n in node.meta["val"].shape]
    for axis in range(len(pads) // 2):
        kept[-1 - axis] += min(pads[2 * axis], 0) + min(pads[2 * axis + 1], 0)
    inside = int(np.prod(kept))
    return max(0.0, need * numel(user) - (numel(user) - inside)) / max(numel(node), 1)


def _chosen(user: fx.Node, node: fx.Node, need: float, constants: Constants) -> float:
    condition, left, right = user.args[:3]
    if condition is node or left is right or constants.value(condition) is None:  # type: ignore[arg-type]
        return need
    share = constants.true_share(condition)  # type: ignore[arg-type]
    if share is None:
        return 0.0
    return max(0.0, need - (1.0 - share if left is node else share))


def _convolved(user: fx.Node, node: fx.Node, need: float, constants: Constants) -> float:
    if user.args[0] is not node:
        return need
    axes = convolution_axes(user)
    if not user.args[6]:
        return _windowed(axes, need)
    return float(np.prod([axis.windows_met() / axis.n_windows for axis in axes])) if need == 1.0 else 0.0


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_PICKING, _picked),
    **dict.fromkeys(("slice", "select", "narrow"), _cut),
    **dict.fromkeys(("slice_scatter", "select_scatter"), _scattered),
    "cat": _joined,
    "constant_pad_nd": _padded,
    "where": _chosen,
    "convolution": _convolved,
}


def _split_need(node: fx.Node, needs: dict[fx.Node, float]) -> float:
    whole = numel(node.all_input_nodes[0])
    return min(1.0, sum(needs[part] * numel(part) for part in node.users) / max(whole, 1))


def _sliced_share(node: fx.Node, needs: dict[fx.Node, float]) -> float:
    """Union of the slices that are needed whole, along the axis where it covers most."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return 0.0
    covered: dict[int, np.ndarray] = {}
    for user in node.users:
        if op_name(user) not in ("slice", "select") or needs[user] < 1.0:
            continue
        axis, positions = _sliced_positions(user, value)
        covered.setdefault(axis, np.zeros(value.shape[axis], dtype=bool))[positions] = True
    return max((float(mask.mean()) for mask in covered.values()), default=0.0)


def _sliced_positions(user: fx.Node, value: torch.Tensor) -> tuple[int, slice | int]:
    arguments = list(user.args[1:])
    axis = int(arguments[0]) if arguments else 0  # type: ignore[arg-type]
    axis %= value.dim()
    if op_name(user) == "select":
        return axis, int(arguments[1])  # type: ignore[arg-type]
    start, end, step = ([*arguments[1:], None, None, None])[:3]
    return axis, slice(start, end, step)

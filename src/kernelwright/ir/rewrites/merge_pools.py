"""Two pools in a row are one pool with a larger window."""

import operator
from typing import Any, NamedTuple

from torch import fx

from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import args_of, argument, aten, first_result, is_call, used_once

AVERAGE_POOLS: dict[Any, int] = {aten.avg_pool2d.default: 2, aten.avg_pool3d.default: 3}
MAX_POOLS: dict[Any, int] = {
    aten.max_pool2d_with_indices.default: 2,
    aten.max_pool3d_with_indices.default: 3,
}


class Pool(NamedTuple):
    """A pool without padding and dilation that drops incomplete windows."""

    target: Any
    source: fx.Node
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    is_max: bool


def read_pool(node: fx.Node) -> Pool | None:
    """Read a plain pool from the node that holds its values."""
    call = first_result(node, *MAX_POOLS)
    is_max = call is not None
    if call is None:
        call = node if is_call(node, *AVERAGE_POOLS) else None
    if call is None:
        return None
    rank = (MAX_POOLS if is_max else AVERAGE_POOLS)[call.target]
    kernel = _spread(args_of(call)[1], rank)
    stride = _spread(argument(call, 2) or kernel, rank)
    padding = _spread(argument(call, 3) or 0, rank)
    rest = args_of(call)[4:]
    plain_rest = _is_plain_max(rest, rank) if is_max else _is_plain_average(rest)
    source: Any = args_of(call)[0]
    if any(padding) or call.kwargs or not plain_rest:
        return None
    return Pool(call.target, source, kernel, stride, is_max)


def _spread(value: Any, rank: int) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return tuple(int(v) for v in values) * (rank if len(values) == 1 else 1)


def _is_plain_max(rest: tuple[Any, ...], rank: int) -> bool:
    dilation = _spread(rest[0], rank) if rest else (1,) * rank
    return all(d == 1 for d in dilation) and not any(rest[1:])


def _is_plain_average(rest: tuple[Any, ...]) -> bool:
    """No rounding up, no divisor of its own; counting the padding says nothing without padding."""
    ceil_mode = rest[0] if rest else False
    divisor = rest[2] if len(rest) > 2 else None
    return not ceil_mode and divisor is None


def _propose(node: fx.Node) -> Proposal | None:
    outer = read_pool(node)
    if outer is None:
        return None
    inner = read_pool(outer.source)
    if inner is None or inner.target != outer.target or not used_once(outer.source):
        return None
    pairs = list(zip(inner.kernel, inner.stride, strict=True))
    if any(s > k if outer.is_max else s != k for k, s in pairs):
        return None  # windows must tile the input (mean) or leave no gaps (max)
    kernel = [(o - 1) * s + k for (k, s), o in zip(pairs, outer.kernel, strict=True)]
    stride = [s * o for s, o in zip(inner.stride, outer.stride, strict=True)]

    def build(edit: Editor) -> fx.Node:
        merged = edit.call(outer.target, inner.source, kernel, stride)
        return edit.call(operator.getitem, merged, 0) if outer.is_max else merged

    why = f"pools {list(inner.kernel)} and {list(outer.kernel)} in a row are one pool {kernel}"
    where = args_of(outer.source)[0] if outer.is_max else outer.source
    return Proposal(why, build, 0.5 * node_ms(where))


REWRITE = PatternRewrite("merge_pools", _propose)

"""An exclusive scan written as zeros before an inclusive one, as a scan of the shifted input."""

from typing import Any

import torch
from torch import fx

from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import (
    args_of,
    argument,
    aten,
    constant_value,
    is_call,
    target_of,
    used_once,
)

IDENTITY = {aten.cumsum.default: 0.0, aten.cumprod.default: 1.0}
"""Scan -> the value that leaves it as it is."""


def _propose(node: fx.Node) -> Proposal | None:
    if not is_call(node, aten.cat.default) or len(args_of(node)[0]) != 2:
        return None
    lead, scan = args_of(node)[0]
    if not is_call(scan, *IDENTITY) or not used_once(scan) or scan.kwargs:
        return None
    rank = scan.meta["val"].dim()
    dim: Any = argument(node, 1, 0) % rank
    same_dtype = lead.meta["val"].dtype == scan.meta["val"].dtype == args_of(scan)[0].meta["val"].dtype
    if dim != args_of(scan)[1] % rank or not same_dtype or not _is_all(lead, IDENTITY[target_of(scan)]):
        return None

    def build(edit: Editor) -> fx.Node:
        shifted = edit.call(aten.cat.default, [lead, args_of(scan)[0]], dim)
        return edit.call(scan.target, shifted, *args_of(scan)[1:])

    why = f"{lead.name} holds what {scan.name} begins with: the shifted input is read while it is scanned"
    return Proposal(why, build, node_ms(node))


def _is_all(node: fx.Node, value: float) -> bool:
    """Whether every element is known to be ``value``."""
    if is_call(node, aten.full_like.default, aten.full.default):
        return bool(args_of(node)[1] == value)
    known = constant_value(node)
    return known is not None and bool(torch.all(known == value))


REWRITE = PatternRewrite("scan_shift", _propose)

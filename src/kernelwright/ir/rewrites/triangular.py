"""A matrix product with triangular operands, or of which a triangle is kept, skips the zero blocks."""

import math
from typing import Any

from torch import fx

from kernelwright.ir import helpers
from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.matrices import Triangle, masked, matrix_triangle, triangle
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import args_of, aten, is_call, shape, used_once

SMALLEST = 128
"""Rows and columns from which blocks pay."""


def _propose(node: fx.Node) -> Proposal | None:
    product, keep = _product(node)
    if product is None:
        return None
    left, right = (matrix_triangle(operand) for operand in args_of(product))
    if not (left or right or keep) or min(shape(product)) < SMALLEST:
        return None
    part = _fraction_left(product, left, right, keep)
    if part > 0.85:
        return None
    what = ", ".join(
        f"{name} is {'lower' if t[0] else 'upper'} triangular"
        for name, t in (("left operand", left), ("right operand", right), ("kept part", keep))
        if t
    )
    why = f"{product.name} {list(shape(product))}: {what}; about {1 - part:.0%} of the product is not needed"
    return Proposal(
        why,
        lambda edit: edit.call(helpers.triangular_matmul, *args_of(product), left, right, keep),
        (1 - part) * node_ms(product),
    )


def _product(node: fx.Node) -> tuple[fx.Node | None, Triangle | None]:
    """The product that ends at a node, and the triangle of it that is kept."""
    found = masked(node)
    if found is not None:
        keep = triangle(found.mask)
        inner = found.kept
        if keep and is_call(inner, aten.mm.default) and used_once(inner) and shape(inner) == shape(node):
            return inner, keep
        return None, None
    if not is_call(node, aten.mm.default):
        return None, None
    reader: Any = next(iter(node.users))
    mask = masked(reader) if used_once(node) else None
    kept_later = mask is not None and mask.kept is node and triangle(mask.mask)
    return (None if kept_later else node), None


def _fraction_left(
    product: fx.Node, left: Triangle | None, right: Triangle | None, keep: Triangle | None
) -> float:
    """Share of the multiplications that the helper's blocks carry out (cf. its loop)."""
    n_rows, n_columns = shape(product)
    n_inner = shape(args_of(product)[0])[1]
    tall = max(64, math.ceil(n_rows / 8)) if left or keep else n_rows
    wide = max(64, math.ceil(n_columns / 8)) if right else n_columns
    total = 0
    for top in range(0, n_rows, tall):
        bottom = min(top + tall, n_rows)
        for start in range(0, n_columns, wide):
            end = min(start + wide, n_columns)
            first, last = _clip((start, end), keep, (top, bottom))
            low, high = _clip((0, n_inner), left, (top, bottom))
            if right:  # the transposed triangle: rows of it by its columns
                low, high = _clip((low, high), (not right[0], -right[1]), (first, last))
            total += (bottom - top) * max(0, last - first) * max(0, high - low)
    return total / (n_rows * n_columns * n_inner)


def _clip(columns: tuple[int, int], kept: Triangle | None, rows: tuple[int, int]) -> tuple[int, int]:
    if kept is None:
        return columns
    lower, k = kept
    first, last = columns
    return (first, min(last, rows[1] + k)) if lower else (max(first, rows[0] + k), last)


REWRITE = PatternRewrite("triangular_matmul", _propose)

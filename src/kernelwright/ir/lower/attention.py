"""Attention as one region, from scores to weighted values: only where a plan asks for our own."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelwright.ir.lower.affine import Index, NeedSplitError, axis, flatten, linear, scale
from kernelwright.ir.lower.affine import add as plus
from kernelwright.ir.lower.compose import Draft
from kernelwright.ir.lower.maker import Maker, broadcast
from kernelwright.ir.lower.pointwise import UnsupportedError
from kernelwright.ir.lower.products import PRODUCTS
from kernelwright.ir.lower.reader import StageReader
from kernelwright.ir.lower.values import Attention, BlockedError, Inline, Value, placement
from kernelwright.ir.program import Affine, Axis, Const, Expr, Load, LoopStage, StageValue, StoreTo

ROW, KEY, DEPTH, FEATURE = "q", "k", "e", "d"
"""Axes of one attention: rows of the query, keys, what scores sum over, columns of the value."""
MOST_SPLITS = 8


def attention(
    make: Maker,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """Handle ``scaled_dot_product_attention`` of float32 without dropout."""
    operands = (query, key, value)
    if dropout or any(v.dtype != "float32" or len(v.shape) < 2 for v in operands):
        raise UnsupportedError("attention with dropout, or of other dtypes than float32")
    if mask is not None and (is_causal or mask.dtype not in ("float32", "bool")):
        raise UnsupportedError("a mask beside the causal one, or of another dtype")
    groups = query.shape[-3] // key.shape[-3] if enable_gqa else 1
    if enable_gqa and (query.shape[-3] != groups * key.shape[-3] or key.shape[-3] != value.shape[-3]):
        raise UnsupportedError("heads that do not fall into groups")
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    made = Attention(make.node, make.shape, make.dtype, make.node, operands, factor, mask, is_causal, groups)
    make.made.append(made)
    return made


PRODUCTS["scaled_dot_product_attention.default"] = attention


def attention_draft(
    value: Attention, stored: Mapping[Value, tuple[str, tuple[int, ...]]], interned: dict[Expr, Expr]
) -> Draft:
    """Return the region of one attention.

    Raises BlockedError when an operand must be stored first, or cannot be read at all.
    """
    attempt = _Attempt(value, stored, interned)
    for _ in range(MOST_SPLITS):
        try:
            return attempt.draft()
        except NeedSplitError as need:
            attempt.split(need)
    raise BlockedError(value, value, "the axes keep splitting")


@dataclass
class _Attempt:
    """The axes before the rows may have to be split where heads are read through reshapes."""

    value: Attention
    stored: Mapping[Value, tuple[str, tuple[int, ...]]]
    interned: dict[Expr, Expr]
    factors: list[list[int]] = field(default_factory=list)
    """Per dimension before the last two: sizes of its axes, outermost first."""

    def __post_init__(self) -> None:
        self.factors = [[size] for size in self.value.shape[:-2]]
        if self.value.groups > 1:
            self.factors[-1] = [self.value.shape[-3] // self.value.groups, self.value.groups]

    def split(self, need: NeedSplitError) -> None:
        dim, position = (int(part) for part in need.axis[1:].split("_"))
        size = self.factors[dim][position]
        self.factors[dim][position : position + 1] = [size // need.factor, need.factor]

    def draft(self) -> Draft:
        value = self.value
        query, key, values = value.operands
        outer = [Axis(_name(d, k), n) for d, sizes in enumerate(self.factors) for k, n in enumerate(sizes)]
        kept = (*outer, Axis(ROW, value.shape[-2]))
        inner = (Axis(KEY, key.shape[-2]), Axis(DEPTH, query.shape[-1]), Axis(FEATURE, values.shape[-1]))
        self.reader = StageReader(self.stored, {}, value, self.interned)
        self.reader.sizes.update({a.name: a.size for a in (*kept, *inner)})
        heads = self._heads(shared=False)
        batch = self._heads(shared=value.groups > 1)
        left = self._operand(query, (*heads, axis(ROW), axis(DEPTH)))
        right = self._operand(key, (*batch, axis(KEY), axis(DEPTH)))
        weighted = self._operand(values, (*batch, axis(KEY), axis(FEATURE)))
        index = flatten((*heads, axis(ROW), axis(FEATURE)), placement(value)[1])
        stages = self._stages(left, right, weighted, (*heads, axis(ROW), axis(KEY)), index)
        evaluated = {v: e for v, e in self.reader.evaluated.items() if v is not value}
        return Draft(kept, inner, stages, evaluated)

    def _heads(self, *, shared: bool) -> Index:
        """Return the index before the rows; ``shared``: of the heads that a group shares."""
        found = []
        for dim, sizes in enumerate(self.factors):
            used = list(enumerate(sizes))
            if shared and dim == len(self.factors) - 1:
                used = [(k, n) for k, n in used if math.prod(sizes[k + 1 :]) >= self.value.groups]
            total, step = Affine(), 1
            for k, n in reversed(used):
                total, step = plus(total, scale(axis(_name(dim, k)), step)), step * n
            found.append(total)
        return tuple(found)

    def _operand(self, operand: Value, index: Index) -> Load:
        """Return the plain element that an operand is read at."""
        expr = self._read(operand, index)
        if not isinstance(expr, Load) or expr.bounds or expr.dynamic:
            raise BlockedError(operand, self.value, "attention reads its operands from memory")
        return expr

    def _read(self, value: Value, index: Index) -> Expr:
        try:
            return self.reader.read(value, broadcast(index, value.shape))
        except NeedSplitError as need:
            if need.axis.startswith("o"):
                raise
            blocked = value if isinstance(value, Inline) else self.value
            raise BlockedError(blocked, self.value, "rows or keys are read through a reshape") from need

    def _stages(
        self, left: Expr, right: Expr, weighted: Expr, at: Index, index: Affine
    ) -> tuple[LoopStage, ...]:
        name, op = self.value.name, self.reader.op

        def of(stage: str) -> StageValue:
            return StageValue(f"{name}_{stage}", "float32")

        def sum_of(stage: str, axes: tuple[str, ...], expr: Expr, per: tuple[str, ...] = ()) -> LoopStage:
            return LoopStage(f"{name}_{stage}", "reduce", axes, expr, "float32", "sum", per=per)

        score = self._score(of("product"), at)
        zero, top = Const(0.0, "float32"), of("top")
        is_empty = op("eq", top, Const(-math.inf, "float32"), dtype="bool")
        shift = op("where", is_empty, zero, top, dtype="float32")
        weight = op("exp", op("sub", score, shift, dtype="float32"), dtype="float32")
        mean = op("div", of("sum"), of("total"), dtype="float32")
        sees_none = op("eq", of("total"), zero, dtype="bool")
        product = op("mul", left, right, dtype="float32")
        return (
            sum_of("product", (KEY, DEPTH), product, (KEY,)),
            LoopStage(f"{name}_top", "reduce", (KEY,), score, "float32", "max"),
            sum_of("total", (KEY,), weight),
            sum_of("sum", (KEY, FEATURE), op("mul", weight, weighted, dtype="float32"), (FEATURE,)),
            LoopStage(
                name,
                "map",
                (FEATURE,),
                op("where", sees_none, zero, mean, dtype="float32"),
                "float32",
                stores=(StoreTo(name, index),),
            ),
        )

    def _score(self, product: Expr, at: Index) -> Expr:
        """Return what goes into the softmax at a row and a key."""
        op, value = self.reader.op, self.value
        unseen = Const(-math.inf, "float32")
        score = product
        if value.scale != 1.0:
            score = op("mul", product, Const(value.scale, "float32"), dtype="float32")
        if value.is_causal:
            reach = (linear({ROW: 1, KEY: -1}), value.shape[-2])
            return op("where", self.reader.inside([reach]), score, unseen, dtype="float32")
        if value.mask is None:
            return score
        mask: Any = self._read(value.mask, at)
        if value.mask.dtype == "bool":
            return op("where", mask, score, unseen, dtype="float32")
        return op("add", score, mask, dtype="float32")


def _name(dim: int, part: int) -> str:
    return f"o{dim}_{part}"

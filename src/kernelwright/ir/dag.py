"""A region's expressions as one graph of numbered nodes: equal expressions are one node.

Children have smaller numbers than their parents, so ascending order is an order of evaluation.
Values of map stages are their expressions; only reduced and scanned values are leaves.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from kernelwright.ir.lower.expressions import walk
from kernelwright.ir.program import (
    TRANSCENDENTALS,
    Affine,
    Bound,
    Const,
    DType,
    Expr,
    IndexValue,
    Inside,
    Load,
    LoopStage,
    Op,
    Region,
    StageValue,
    StoreTo,
)

STEPS = frozenset({"floor", "ceil", "round", "trunc", "fmod", "remainder"})
"""Functions of floats that jump."""
COMPARED = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
NodeKind = Literal["const", "load", "index", "bound", "op", "reduced", "scanned"]
COSTLY_OPS = frozenset({"div", "reciprocal", "sqrt", "rsqrt", "fmod", "remainder", "floordiv"})
NOWHERE = Affine()
COST_CACHED = 8
"""A value of at least this cost is kept instead of computed again."""


@dataclass(frozen=True)
class DagNode:
    """One distinct expression of a region."""

    kind: NodeKind
    name: str
    """Operation, buffer or stage; empty otherwise."""
    dtype: DType
    args: tuple[int, ...] = ()
    """Of a load: its bounds, then the dynamic indices."""
    index: Affine = NOWHERE
    """Of a load, index or bound."""
    size: int = 0
    """Of a bound: its upper end."""
    value: float | int | bool = 0
    """Of a constant; of a bounded load: the value outside."""
    strides: tuple[int, ...] = ()
    """Of a load: element stride per dynamic index."""


@dataclass(frozen=True)
class Action:
    """The use of a node at each point of a group's loops: store, reduce or scan."""

    kind: Literal["reduce", "scan", "store"]
    node: int
    stage: LoopStage
    store: StoreTo | None = None


@dataclass(frozen=True)
class StageGroup:
    """Actions that share one loop nest over the same inner axes."""

    axes: tuple[str, ...]
    actions: tuple[Action, ...]

    @property
    def reduces(self) -> tuple[Action, ...]:
        """Return the reductions."""
        return tuple(a for a in self.actions if a.kind == "reduce")

    @property
    def scans(self) -> tuple[Action, ...]:
        """Return the scans."""
        return tuple(a for a in self.actions if a.kind == "scan")

    @property
    def stores(self) -> tuple[Action, ...]:
        """Return the stores."""
        return tuple(a for a in self.actions if a.kind == "store")


def _exact_divisions(region: Region) -> set[Expr]:
    """Return the divisions below functions with steps: rounding, comparisons."""
    maps = {stage.name: stage.expr for stage in region.stages if stage.kind == "map"}
    pending = [arg for expr in walk(stage.expr for stage in region.stages) for arg in _before_a_step(expr)]
    seen: set[Expr] = set()
    found: set[Expr] = set()
    while pending:
        expr = pending.pop()
        if expr in seen:
            continue
        seen.add(expr)
        if isinstance(expr, StageValue) and expr.stage in maps:
            pending.append(maps[expr.stage])
        elif isinstance(expr, Op):
            pending.extend(expr.args)
            if expr.name == "div":
                found.add(expr)
    return found


def _before_a_step(expr: Expr) -> tuple[Expr, ...]:
    """Return what a function with steps is given; a step at 0 is safe, as a quotient keeps its sign."""
    if not isinstance(expr, Op):
        return ()
    if expr.name in COMPARED:
        return () if any(isinstance(a, Const) and a.value == 0 for a in expr.args) else expr.args
    is_whole = expr.name == "cast" and expr.dtype not in ("float32", "float64", "bool")
    return expr.args if is_whole or expr.name in STEPS else ()


def reads_scan_later(stages: tuple[LoopStage, ...]) -> bool:
    """Tell whether a group of a region's loops reads what the loops of an earlier one scanned."""
    if not any(stage.kind == "scan" for stage in stages):
        return False
    dag = Dag(Region("", (), (), stages))
    for group in dag.groups:
        own = {a.stage.name for a in group.scans}
        read = (dag.nodes[n] for n in dag.needed([a.node for a in group.actions]))
        if any(node.kind == "scanned" and node.name not in own for node in read):
            return True
    return False


class Dag:
    """The expressions of one region, and its stages cut into groups."""

    def __init__(self, region: Region, lane_axis: str | None = None) -> None:
        self.region = region
        self._fast_axes = {axis.name for axis in region.inner} | ({lane_axis} if lane_axis else set())
        """Axes of inner loops: what does not depend on them is computed outside."""
        self.nodes: list[DagNode] = []
        self.axes: list[frozenset[str]] = []
        """Axes on which each node's value depends."""
        self._numbers: dict[DagNode, int] = {}
        self._by_identity: dict[int, int] = {}
        self._values: dict[str, int] = {}
        self._kept = frozenset(axis.name for axis in region.kept)
        self._stages = {stage.name: stage for stage in region.stages}
        self._exact = _exact_divisions(region)

    @cached_property
    def groups(self) -> tuple[StageGroup, ...]:
        """Return the stages as groups; a stage joins the group before it where that is legal."""
        groups: list[tuple[tuple[str, ...], list[Action]]] = []
        for stage in self.region.stages:
            for axes, actions in self._actions(stage):
                can_join = groups and groups[-1][0] == axes and not self._waits(actions, groups[-1][1])
                if can_join:
                    groups[-1][1].extend(actions)
                else:
                    groups.append((axes, actions))
        return tuple(StageGroup(axes, tuple(actions)) for axes, actions in groups)

    def needed(self, roots: list[int], stops: frozenset[int] = frozenset()) -> set[int]:
        """Return the nodes that the roots depend on, themselves included, not going below stops."""
        seen: set[int] = set()
        pending = list(roots)
        while pending:
            number = pending.pop()
            if number in seen:
                continue
            seen.add(number)
            if number not in stops:
                pending.extend(self.nodes[number].args)
        return seen

    def cost(self, number: int) -> int:
        """Return a rough instruction count of the whole expression, loads not counted."""
        return sum(self.own_cost(n) for n in self.needed([number]))

    def own_cost(self, number: int) -> int:
        """Return a rough instruction count of the node alone."""
        node = self.nodes[number]
        if node.kind != "op":
            return 0
        if node.name in TRANSCENDENTALS or node.name in ("tanh_softplus", "one_plus_erf"):
            return 15
        return 5 if node.name in COSTLY_OPS else 1

    def add(self, expr: Expr) -> int:
        """Number an expression."""
        known = self._by_identity.get(id(expr))
        if known is None:
            known = self._add_new(expr)
            self._by_identity[id(expr)] = known
        return known

    def _actions(self, stage: LoopStage) -> list[tuple[tuple[str, ...], list[Action]]]:
        """Return what a stage does, by the axes that it does it over."""
        node = self.add(stage.expr)
        actions: list[Action] = []
        if stage.kind == "map":
            self._values[stage.name] = node
        else:
            actions.append(Action(stage.kind, node, stage))
            kind: NodeKind = "reduced" if stage.kind == "reduce" else "scanned"
            self._values[stage.name] = self._put(DagNode(kind, stage.name, stage.dtype))
        value = self._values[stage.name]
        stores = [Action("store", value, stage, store) for store in stage.stores]
        if stage.kind == "reduce":
            return [(stage.axes, actions)] + ([(stage.per, stores)] if stores else [])
        return [(stage.axes, actions + stores)] if actions or stores else []

    def _waits(self, actions: list[Action], group: list[Action]) -> bool:
        """True when the actions read what the group's loops only finish at their end."""
        reduced = {a.stage.name for a in group if a.kind == "reduce"}
        written = {a.store.buffer for a in group if a.store is not None}
        used = [self.nodes[n] for n in self.needed([a.node for a in actions])]
        own = {a.stage.name for a in actions if a.kind == "reduce"}
        return any(
            (n.kind == "reduced" and n.name in reduced | own) or (n.kind == "load" and n.name in written)
            for n in used
        )

    def _add_new(self, expr: Expr) -> int:
        match expr:
            case Const(value, dtype):
                return self._put(DagNode("const", repr(value), dtype, value=value))
            case IndexValue(index, dtype):
                return self._put(DagNode("index", "", dtype, index=index))
            case Inside(bounds):
                return self._all(tuple(self._bound(b) for b in bounds))
            case StageValue(stage, _):
                return self._values[stage]
            case Op(name, args, dtype):
                return self._op(name, tuple(self.add(a) for a in args), dtype, expr in self._exact)
        return self._load(expr)

    def _op(self, name: str, args: tuple[int, ...], dtype: DType, is_exact: bool) -> int:
        """A float32 division in a loop by a value of an outer one becomes a product: at most 1 ulp off.

        Not where that may be a whole step: floor(49 / 49) is 1, and 49 * (1 / 49) is below 1.
        """
        if name == "div" and dtype == "float32" and not is_exact:
            above, below = args
            if self._fast_axes & (self.axes[above] - self.axes[below]):
                return self._put(DagNode("op", "mul", dtype, (above, self._inverse(below))))
        return self._put(self._special(name, args, dtype) or DagNode("op", name, dtype, args))

    def _special(self, name: str, args: tuple[int, ...], dtype: DType) -> DagNode | None:
        """Return a cheaper node for a composition that has one, in mish and GELU."""
        if dtype != "float32":
            return None
        inside = [self.nodes[a] for a in args]
        if name == "tanh" and inside[0].kind == "op" and inside[0].name == "softplus":
            return DagNode("op", "tanh_softplus", dtype, inside[0].args)
        if name == "add":
            for one, other in (inside, inside[::-1]):
                if one.kind == "const" and one.value == 1 and other.kind == "op" and other.name == "erf":
                    return DagNode("op", "one_plus_erf", dtype, other.args)
        return None

    def _inverse(self, number: int) -> int:
        node = self.nodes[number]
        if node.kind == "const" and node.value:
            value = 1.0 / float(node.value)
            return self._put(DagNode("const", repr(value), node.dtype, value=value))
        return self._put(DagNode("op", "reciprocal", node.dtype, (number,)))

    def _load(self, load: Load) -> int:
        bounds = tuple(self._bound(b) for b in load.bounds)
        dynamic = tuple(self.add(e) for e, _ in load.dynamic)
        return self._put(
            DagNode(
                "load",
                load.buffer,
                load.dtype,
                bounds + dynamic,
                load.index,
                value=load.otherwise,
                strides=tuple(stride for _, stride in load.dynamic),
            )
        )

    def _bound(self, bound: Bound) -> int:
        return self._put(DagNode("bound", "", "bool", index=bound.index, size=bound.size))

    def _all(self, conditions: tuple[int, ...]) -> int:
        if not conditions:
            return self._put(DagNode("const", "True", "bool", value=True))
        result = conditions[0]
        for condition in conditions[1:]:
            result = self._put(DagNode("op", "and", "bool", (result, condition)))
        return result

    def _put(self, node: DagNode) -> int:
        number = self._numbers.get(node)
        if number is None:
            number = len(self.nodes)
            self._numbers[node] = number
            self.nodes.append(node)
            self.axes.append(self._depends_on(node))
        return number

    def _depends_on(self, node: DagNode) -> frozenset[str]:
        axes = {axis for axis, _ in node.index.terms}
        for arg in node.args:
            axes |= self.axes[arg]
        if node.kind in ("reduced", "scanned"):
            axes |= self._kept
        if node.kind == "scanned":
            axes |= set(self._stages[node.name].axes)
        if node.kind == "reduced":
            axes |= set(self._stages[node.name].per)
        return frozenset(axes)

"""Recurrent layers as regions that take one step after the other: only where a plan asks for our own.

The equations are those of ``torch.nn.LSTM``, ``GRU`` and ``RNN``; a gate's rows of the weights lie together.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from kernelwright.ir.lower.affine import Index, NeedSplitError, axis, const, flatten, shift
from kernelwright.ir.lower.compose import Draft
from kernelwright.ir.lower.maker import Maker
from kernelwright.ir.lower.pointwise import UnsupportedError
from kernelwright.ir.lower.reader import StageReader
from kernelwright.ir.lower.registry import Handler
from kernelwright.ir.lower.values import BlockedError, Cell, CellState, Inline, Recurrence, Value, placement
from kernelwright.ir.lower.views import side_by_side
from kernelwright.ir.program import (
    Affine,
    Axis,
    Bound,
    Const,
    Expr,
    Inside,
    Load,
    LoopStage,
    StageValue,
    StoreTo,
)

STEP, ROW, UNIT, CARRIED, GIVEN = "t", "b", "j", "k", "e"
"""Axes of a layer: steps, rows of the batch, units, and what sums over states and over inputs run along."""
GATES: dict[Cell, int] = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def _layers(
    make: Maker,
    x: Value,
    states: Value | Sequence[Value],
    params: Sequence[Value],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    cell: Cell,
) -> tuple[Value, ...]:
    """Handle ``lstm.input``, ``gru.input`` and ``rnn_*.input`` of float32: output and last states."""
    first = [states] if isinstance(states, Value) else list(states)
    per, directions = 4 if has_biases else 2, 2 if bidirectional else 1
    if any(v.dtype != "float32" for v in (x, *first, *params)) or (train and dropout) or len(x.shape) != 3:
        raise UnsupportedError("a recurrent layer with dropout, or of other dtypes than float32")
    if len(params) != per * directions * num_layers:
        raise UnsupportedError("a recurrent layer that projects its state")
    sequence = _turned(make, x) if batch_first else x
    made: list[Recurrence] = []
    for _ in range(num_layers):
        ways = []
        for is_reversed in (False, True)[:directions]:
            number = len(made)
            weights = params[per * number : per * (number + 1)]
            before = tuple(_of_layer(make, state, number) for state in first)
            made.append(_layer(make, cell, sequence, weights, before, is_reversed=is_reversed))
            ways.append(made[-1])
        units = ways[0].shape[-1]
        sequence = (
            ways[0] if directions == 1 else side_by_side(make, ways, 2, (*ways[0].shape[:2], 2 * units))
        )
    hidden = [_last_step(make, layer) for layer in made]
    cells = [_alone(make, layer.state) for layer in made if layer.state is not None]
    last = [side_by_side(make, parts, 0, first[0].shape) for parts in (hidden, cells) if parts]
    return (_turned(make, sequence) if batch_first else sequence, *last)


RECURRENCES: dict[str, Handler] = {f"{cell}.input": partial(_layers, cell=cell) for cell in GATES}
"""``name.overload`` -> handler, as in ``registry.py``; not among those because the library is the default."""


def _layer(
    make: Maker,
    cell: Cell,
    given: Value,
    params: Sequence[Value],
    before: tuple[Value, ...],
    *,
    is_reversed: bool,
) -> Recurrence:
    rows, units = before[0].shape
    shape = (given.shape[0], rows, units)
    made = Recurrence(
        make.name(),
        shape,
        "float32",
        make.node,
        cell=cell,
        given=given,
        weights=(params[0], params[1]),
        biases=tuple(params[2:]),
        before=before,
        is_reversed=is_reversed,
    )
    make.keep(made)
    if cell == "lstm":
        made.state = make.keep(CellState(make.name(), (rows, units), "float32", make.node, of=made))
    return made


def _turned(make: Maker, x: Value) -> Value:
    """Return the value with its first two dimensions in each other's place."""
    return make.view(x, (x.shape[1], x.shape[0], *x.shape[2:]), lambda i: (i[1], i[0], *i[2:]))


def _of_layer(make: Maker, state: Value, number: int) -> Value:
    return make.view(state, state.shape[1:], lambda i: (const(number), *i))


def _alone(make: Maker, state: Value) -> Value:
    return make.view(state, (1, *state.shape), lambda i: i[1:])


def _last_step(make: Maker, layer: Recurrence) -> Value:
    last = 0 if layer.is_reversed else layer.shape[0] - 1
    return make.view(layer, (1, *layer.shape[1:]), lambda i: (const(last), *i[1:]))


def recurrence_draft(
    value: Recurrence, stored: Mapping[Value, tuple[str, tuple[int, ...]]], interned: dict[Expr, Expr]
) -> Draft:
    """Return the region of one layer in one direction.

    Raises BlockedError when an operand must be stored first, or cannot be read at all.
    """
    steps, rows, units = value.shape
    inner = (
        Axis(STEP, steps),
        Axis(ROW, rows),
        Axis(UNIT, units),
        Axis(CARRIED, units),
        Axis(GIVEN, value.given.shape[-1]),
    )
    reader = StageReader(stored, {}, value, interned)
    reader.sizes.update({one.name: one.size for one in inner})
    stages = _Stages(value, reader).all()
    evaluated = {v: e for v, e in reader.evaluated.items() if v is not value}
    return Draft((), inner, stages, evaluated, STEP)


class _Stages:
    """The stages of one layer."""

    def __init__(self, value: Recurrence, reader: StageReader) -> None:
        self.value, self.reader = value, reader
        last = value.shape[0] - 1
        self.at = Affine(((STEP, -1),), last) if value.is_reversed else axis(STEP)
        """Where a step lies in the sequence."""
        self.made: list[LoopStage] = []

    def all(self) -> tuple[LoopStage, ...]:
        """Return sums over the input, sums over the states, then what a step makes of them."""
        gates = range(GATES[self.value.cell])
        given = self._operand(self.value.given, (self.at, axis(ROW), axis(GIVEN)))
        hidden = self._before(CARRIED)
        for kind, weight, operand, along in (("x", 0, given, GIVEN), ("h", 1, hidden, CARRIED)):
            for gate in gates:
                self._sum(f"{kind}{gate}", weight, gate, operand, along)
        sums = [(self._of(f"x{gate}"), self._of(f"h{gate}")) for gate in gates]
        if self.value.biases:
            sums = [(self._biased(x, 0, g), self._biased(h, 1, g)) for g, (x, h) in enumerate(sums)]
        new = {"lstm": self._lstm, "gru": self._gru}.get(self.value.cell, self._plain)(sums)
        name, strides = placement(self.value)
        index = flatten((self.at, axis(ROW), axis(UNIT)), strides)
        self._map(self.value.name, new, StoreTo(name, index))
        return tuple(self.made)

    # -- cells -----------------------------------------------------------------------------------------

    def _lstm(self, sums: Sequence[tuple[Expr, Expr]]) -> Expr:
        keep_in, keep, new, out = (self._op("add", *pair) for pair in sums)
        state = self.value.state
        assert state is not None
        name, strides = placement(state)
        index = flatten((axis(ROW), axis(UNIT)), strides)
        was = self._carried(Load(name, index, "float32", self._after_first()), self.value.before[1], UNIT)
        kept = self._op("mul", self._op("sigmoid", keep), was)
        added = self._op("mul", self._op("sigmoid", keep_in), self._op("tanh", new))
        self._map(state.name, self._op("add", kept, added), StoreTo(name, index))
        return self._op("mul", self._op("sigmoid", out), self._op("tanh", StageValue(state.name, "float32")))

    def _gru(self, sums: Sequence[tuple[Expr, Expr]]) -> Expr:
        reset, keep = (self._op("sigmoid", self._op("add", *pair)) for pair in sums[:2])
        x, h = sums[2]
        new = self._op("tanh", self._op("add", x, self._op("mul", reset, h)))
        from_new = self._op("sub", self._before(UNIT), new)
        return self._op("add", self._op("mul", from_new, keep), new)  # rounds as torch does

    def _plain(self, sums: Sequence[tuple[Expr, Expr]]) -> Expr:
        total = self._op("add", *sums[0])
        if self.value.cell == "rnn_tanh":
            return self._op("tanh", total)
        return self._op("max", total, Const(0.0, "float32"))

    # -- parts -----------------------------------------------------------------------------------------

    def _op(self, name: str, *args: Expr) -> Expr:
        return self.reader.op(name, *args, dtype="float32")

    def _of(self, stage: str) -> Expr:
        return StageValue(f"{self.value.name}_{stage}", "float32")

    def _sum(self, name: str, weight: int, gate: int, operand: Expr, along: str) -> None:
        row = shift(axis(UNIT), gate * self.value.shape[-1])
        product = self._op("mul", self._operand(self.value.weights[weight], (row, axis(along))), operand)
        axes, per = (STEP, ROW, UNIT, along), (STEP, ROW, UNIT)
        stage = f"{self.value.name}_{name}"
        self.made.append(LoopStage(stage, "reduce", axes, product, "float32", "sum", per=per))

    def _biased(self, total: Expr, number: int, gate: int) -> Expr:
        row = shift(axis(UNIT), gate * self.value.shape[-1])
        return self._op("add", total, self._operand(self.value.biases[number], (row,)))

    def _map(self, name: str, expr: Expr, store: StoreTo) -> None:
        self.made.append(LoopStage(name, "map", (STEP, ROW, UNIT), expr, "float32", stores=(store,)))

    def _before(self, along: str) -> Expr:
        """Return the hidden state of the step before, along the units or what sums over them run along."""
        name, strides = placement(self.value)
        earlier = shift(self.at, 1 if self.value.is_reversed else -1)
        index = flatten((earlier, axis(ROW), axis(along)), strides)
        return self._carried(Load(name, index, "float32", self._after_first()), self.value.before[0], along)

    def _carried(self, own: Load, first: Value, along: str) -> Expr:
        """Return a state: what the step before made of it, before the first step what was given."""
        start = self._operand(first, (axis(ROW), axis(along)))
        return self._op("where", Inside(self._after_first()), own, start)

    def _after_first(self) -> tuple[Bound, ...]:
        return (Bound(shift(axis(STEP), -1), self.value.shape[0]),)

    def _operand(self, operand: Value, index: Index) -> Load:
        """Return the plain element that an operand is read at."""
        try:
            expr = self.reader.read(operand, index)
        except NeedSplitError as need:
            blocked = operand if isinstance(operand, Inline) else self.value
            raise BlockedError(blocked, self.value, "a layer's operand is read through a reshape") from need
        if not isinstance(expr, Load) or expr.bounds or expr.dynamic:
            raise BlockedError(operand, self.value, "recurrent layers read their operands from memory")
        return expr

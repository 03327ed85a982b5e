"""Regions that take one step of a sequence after the other: their sums, their states, and their cell."""

from dataclasses import dataclass

from kernelwright.core.errors import LoweringError
from kernelwright.ir.dag import Action, Dag
from kernelwright.ir.extents import dims_in
from kernelwright.ir.normalise import axis_sizes, coefficient
from kernelwright.ir.program import Axis, Region


@dataclass(frozen=True)
class WeightedSum:
    """One gate's sum of weights times the input, or times a state. Numbers are nodes."""

    total: int
    weight: int
    operand: int
    """An element of the input, or of the state."""


@dataclass(frozen=True)
class StateBefore:
    """A state as the step before left it. Numbers are nodes."""

    value: int
    """The choice between the other two."""
    own: int
    """What the region stored."""
    first: int
    """What it is before the first step."""


@dataclass(frozen=True, eq=False)
class RecurrenceForm:
    """At each step and row, sums of weights times the input and a state for every unit, and a cell of them.

    Numbers are nodes of the ``dag``.
    """

    dag: Dag
    step: Axis
    row: Axis
    unit: Axis
    feature: Axis
    """What sums over the input run along."""
    carried: Axis
    """What sums over the state run along."""
    of_input: tuple[WeightedSum, ...]
    """By gate."""
    of_state: tuple[WeightedSum, ...]
    hidden: StateBefore
    """What ``of_state`` sums, along ``carried``."""
    states: tuple[StateBefore, ...]
    """What the cell reads, unit by unit."""
    cell: tuple[Action, ...]
    """What is stored at each step, row and unit."""

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Return steps, rows, units, and elements of the input at a step and row."""
        return self.step.size, self.row.size, self.unit.size, self.feature.size

    @property
    def step_work(self) -> int:
        """Return the products that the sums over the state add at one step."""
        return len(self.of_state) * self.row.size * self.unit.size * self.carried.size

    def stride(self, operand: int, axis: Axis) -> int:
        """Return how far apart an operand's elements lie along an axis."""
        return coefficient(self.dag.nodes[operand].index, axis.name)


def find_recurrence(region: Region) -> RecurrenceForm | None:
    """Return what a region of steps computes; None of any other region.

    Raises:
        LoweringError: the region's sizes vary.
    """
    if region.sequence is None:
        return None
    if dims_in(region):
        raise LoweringError(
            f"{region.name}: kernels of recurrent layers have fixed sizes; the library's have not"
        )
    dag = Dag(region)
    actions = [action for group in dag.groups for action in group.actions]
    totals = {node.name: number for number, node in enumerate(dag.nodes) if node.kind == "reduced"}
    sizes = {name: Axis(name, size) for name, size in axis_sizes(region).items()}
    sums: dict[str, list[WeightedSum]] = {}
    for action in (a for a in actions if a.kind == "reduce"):
        (along,) = set(action.stage.axes) - set(action.stage.per)
        weight, operand = dag.nodes[action.node].args
        sums.setdefault(along, []).append(WeightedSum(totals[action.stage.name], weight, operand))
    written = {a.store.buffer for a in actions if a.store is not None}
    found = (_state(dag, number, written) for number in range(len(dag.nodes)))
    states = tuple(state for state in found if state is not None)
    (feature, of_input), (carried, of_state) = sums.items()
    per = next(a.stage.per for a in actions if a.kind == "reduce")
    return RecurrenceForm(
        dag=dag,
        step=sizes[per[0]],
        row=sizes[per[1]],
        unit=sizes[per[2]],
        feature=sizes[feature],
        carried=sizes[carried],
        of_input=tuple(of_input),
        of_state=tuple(of_state),
        hidden=next(state for state in states if state.value == of_state[0].operand),
        states=tuple(state for state in states if state.value != of_state[0].operand),
        cell=tuple(a for a in actions if a.kind == "store"),
    )


def _state(dag: Dag, number: int, written: set[str]) -> StateBefore | None:
    node = dag.nodes[number]
    if node.kind != "op" or node.name != "where":
        return None
    _, own, first = node.args
    is_own = dag.nodes[own].kind == "load" and dag.nodes[own].name in written
    return StateBefore(number, own, first) if is_own else None

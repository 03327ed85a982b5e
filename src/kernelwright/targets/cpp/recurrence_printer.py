"""A recurrent layer as C++: weights are packed once a call, and each thread keeps the units that it has.

Sums over the input of some steps are made together, since they wait for nothing. Then one step follows the
other: sums over the state in registers, the cell on whole vectors of units, and threads meet before the next.
"""

import math
from collections.abc import Callable, Sequence
from string import Template

from kernelwright.ir.arguments import Argument
from kernelwright.ir.program import Affine, Axis, Region
from kernelwright.ir.recurrence import StateBefore, WeightedSum
from kernelwright.ir.text import bare
from kernelwright.targets.cpp.choices import Choices
from kernelwright.targets.cpp.form_printer import FormPrinter
from kernelwright.targets.cpp.recurrence import IN_FLIGHT, RecurrenceTiling

_SUMS = """// Sums `count` products for ROWS rows and the gates of a panel of units, in PARTS parts.
template <int ROWS, int PARTS>
static inline void $name_sums(const float* weights, const float* operand, long row, long step, int count,
    float* sums) {
  $name_vector c[PARTS][ROWS][$gates] = {};
  for (int n = 0; n < count; n += PARTS) {
#pragma GCC unroll 32
    for (int p = 0; p < PARTS; ++p)
#pragma GCC unroll 32
      for (int i = 0; i < ROWS; ++i) {
        const float a = operand[i * row + (n + p) * step];
#pragma GCC unroll 32
        for (int g = 0; g < $gates; ++g)
          c[p][i][g] += a * *(const $name_loose*)(weights + ((n + p) * $gates + g) * $lanes);
      }
  }
#pragma GCC unroll 32
  for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 32
    for (int g = 0; g < $gates; ++g) {
#pragma GCC unroll 32
      for (int p = 1; p < PARTS; ++p) c[0][i][g] += c[p][i][g];
      *($name_loose*)(sums + (i * $gates + g) * $lanes) = c[0][i][g];
    }
}
"""

_OWN = (
    "step", "row", "unit", "first", "start", "steps", "count", "panel", "memory", "here", "packed", "weights",
    "of_input", "of_state", "input_sums", "state_sums", "operand", "sums", "a", "c", "i", "g", "l", "n", "p",
    "ROWS", "PARTS", "UNITS",
)  # fmt: skip
"""Names that the printed functions use for themselves."""


class RecurrencePrinter(FormPrinter):
    """Writes the functions of one region."""

    def __init__(
        self, region: Region, choices: Choices, tiling: RecurrenceTiling, declare: Callable[[Argument], str]
    ) -> None:
        form = tiling.form
        super().__init__(region, choices, form.dag, declare, own=_OWN)
        self.tiling, self.form = tiling, form
        # inside, states are read through pointers of their own
        self.inner_parameters = [text.replace("__restrict ", "") for text in self.parameters]
        self.axes = {
            axis.name: self.names.new(name)
            for axis, name in (
                (form.step, "at_step"),
                (form.row, "at_row"),
                (form.unit, "at_unit"),
                (form.feature, "at_feature"),
                (form.carried, "at_carried"),
            )
        }
        self.befores = [self.names.new(f"before_{n}") for n in range(len(form.states))]

    def text(self) -> str:
        """Return the text of the region's functions."""
        t = self.tiling
        steps, rows, units, features = self.form.sizes
        self._opening(
            f"{steps} steps of {rows} rows: {t.gates} gates of {units} units, {features} elements of "
            f"input; {t.lanes} units at a time.",
            t.lanes,
        )
        self._sums()
        self._pack()
        self._input()
        self._cell()
        self._step()
        self._entry()
        return self.out.text()

    # -- sums ------------------------------------------------------------------------------------------

    def _sums(self) -> None:
        t = self.tiling
        told = {"name_sums": f"{self.name}_sums", "name_vector": f"{self.name}_vector"}
        told |= {"name_loose": f"{self.name}_loose", "gates": str(t.gates), "lanes": str(t.lanes)}
        for line in Template(_SUMS).substitute(told).splitlines():
            self.out.line(line)
        self.out.line("")

    def _tiled(self, tile: int, rests: set[int], along: Axis, given: str) -> None:
        """Write the calls that sum for ``count`` rows: a tile of them, or one of the rests."""
        for size in (tile, *sorted(rests - {0})):
            condition = f"if (count == {size}) " if rests - {0} else ""
            self.out.line(f"{condition}{self.name}_sums<{size}, {self._parts(size, along.size)}>({given});")

    def _parts(self, rows: int, count: int) -> int:
        """Return how many partial sums keep the adders busy; they divide what is summed."""
        wanted = math.ceil(IN_FLIGHT / (rows * self.tiling.gates))
        return next(n for n in range(wanted, 0, -1) if count % n == 0)

    # -- weights ---------------------------------------------------------------------------------------

    def _pack(self) -> None:
        """Write the function that brings the weights of a panel into the order in which sums read them."""
        with self._function("pack", ["int first", "int count", "float* of_input", "float* of_state"]):
            self._packed(self.form.of_input, "feature", "of_input")
            self._packed(self.form.of_state, "carried", "of_state")

    def _packed(self, sums: Sequence[WeightedSum], along: str, target: str) -> None:
        t, axis = self.tiling, getattr(self.form, along)
        at, unit = self.axes[axis.name], self.axes[self.form.unit.name]
        with self.out.block(f"for (int {at} = 0; {at} < {axis.size}; ++{at})"):
            for gate, one in enumerate(sums):
                place = f"{target}[({at} * {t.gates} + {gate}) * {t.lanes} + l]"
                with self.out.block("for (int l = 0; l < count; ++l)"):
                    self.out.line(f"const int {unit} = first + l;")
                    self.out.line(f"{place} = {bare(self._renderer().text(one.weight))};")
                if self.form.unit.size % t.lanes:
                    self.out.line(f"for (int l = count; l < {t.lanes}; ++l) {place} = 0.0f;")

    # -- steps -----------------------------------------------------------------------------------------

    @property
    def _is_by_rows(self) -> bool:
        """True where tiles of sums over the input run along rows instead of steps."""
        return self.form.row.size > self.tiling.block

    def _slot(self, step: str, row: str) -> str:
        """Return where the sums over the input of a step of the block and a row lie."""
        t = self.tiling
        pair = (step, self.form.row.size, row) if self._is_by_rows else (row, t.block, step)
        return f"({pair[0]} * {pair[1]} + {pair[2]}) * {t.gates * t.lanes}"

    def _input(self) -> None:
        """Write the function that sums over the input, for a panel and the steps of a block."""
        t, form = self.tiling, self.form
        steps, rows, _, features = form.sizes
        operand = form.of_input[0].operand
        step, row = self.axes[form.step.name], self.axes[form.row.name]
        along = form.row if self._is_by_rows else form.step
        sizes = {rows} if self._is_by_rows else {t.block, steps % t.block}
        outer, inner = ("steps", str(rows)) if self._is_by_rows else (str(rows), "steps")
        own = ["int start", "int steps", "const float* weights", "float* sums"]
        with (
            self._function("input", own, inline=False),
            self.out.block(f"for (int n = 0; n < {outer}; ++n)"),
            self.out.block(f"for (int i = 0; i < {inner}; i += {t.input_rows})"),
        ):
            first, second = ("n", "i") if self._is_by_rows else ("i", "n")
            slot = self._slot(first, second)
            self.out.line(f"const int {step} = start + {first}, {row} = {second};")
            self.out.line(f"const float* const operand = {self._address(operand, form.feature)};")
            self.out.line(f"float* const here = sums + {slot};")
            self.out.line(f"const int count = least({t.input_rows}, {inner} - i);")
            strides = f"{form.stride(operand, along)}, {form.stride(operand, form.feature)}"
            rests = {size % t.input_rows for size in sizes}
            self._tiled(t.input_rows, rests, form.feature, f"weights, operand, {strides}, {features}, here")

    def _cell(self) -> None:
        """Write the function that makes the new states of some units at one step and row."""
        t, form = self.tiling, self.form
        step, row, unit = (self.axes[axis.name] for axis in (form.step, form.row, form.unit))
        own = [f"int {step}", f"int {row}", "int first", "const float* input_sums", "const float* state_sums"]
        own += [f"const float* {before}" for before in self.befores]
        self.out.line("template <int UNITS>")
        with self._function("cell", own):
            self.out.line("#pragma omp simd")
            with self.out.block("for (int l = 0; l < UNITS; ++l)"):
                self.out.line(f"const int {unit} = first + l;")
                renderer = self._renderer()
                for sums, name in ((form.of_input, "input_sums"), (form.of_state, "state_sums")):
                    for gate, one in enumerate(sums):
                        renderer.bind(one.total, f"{name}[{gate * t.lanes} + l]")
                for state, before in zip(form.states, self.befores, strict=True):
                    step_of = self._stride(state, form.unit)
                    renderer.bind(state.value, f"{before}[l{'' if step_of == '1' else f' * {step_of}'}]")
                self._values(renderer).bind_all(form.cell)
                self._store(form.cell, renderer)

    def _step(self) -> None:
        """Write the function that takes one step with a panel of units."""
        t, form = self.tiling, self.form
        rows, each, hidden = form.row.size, t.gates * t.lanes, form.hidden
        step, row = self.axes[form.step.name], self.axes[form.row.name]
        own = [f"int {step}", "int start", "int first", "const float* weights", "const float* sums"]
        with (
            self._function("step", own, inline=False),
            self.out.block(f"for (int i = 0; i < {rows}; i += {t.rows})"),
        ):
            self.out.line(f"const int count = least({t.rows}, {rows} - i);")
            self.out.line(f"float state_sums[{t.rows * each}] __attribute__((aligned(64)));")
            with self.out.block(""):
                self.out.line(f"const int {row} = i;")
                self.out.line(f"const float* const operand = {self._state(hidden, form.carried)};")
                strides = f"{self._stride(hidden, form.row)}, {self._stride(hidden, form.carried)}"
                given = f"weights, operand, {strides}, {form.carried.size}, state_sums"
                self._tiled(t.rows, {rows % t.rows}, form.carried, given)
            with self.out.block("for (int n = 0; n < count; ++n)"):
                self.out.line(f"const int {row} = i + n;")
                for state, before in zip(form.states, self.befores, strict=True):
                    step_of = self._stride(state, form.unit)
                    offset = "first" if step_of == "1" else f"first * (long){step_of}"
                    self.out.line(
                        f"const float* const {before} = ({self._state(state, form.unit)}) + {offset};"
                    )
                slot = self._slot(f"({step} - start)", row)
                given = f"{step}, {row}, first, sums + {slot}, state_sums + n * {each}"
                given = ", ".join([given, *self.befores])
                rest = form.unit.size % t.lanes
                if rest:
                    self.out.line(f"if (first + {t.lanes} > {form.unit.size})")
                    self._call(f"cell<{rest}>", given, "  ")
                if form.unit.size >= t.lanes:
                    if rest:
                        self.out.line("else")
                    self._call(f"cell<{t.lanes}>", given, "  " if rest else "")

    def _entry(self) -> None:
        t, form = self.tiling, self.form
        steps, rows, units, _ = form.sizes
        each = t.gates * t.lanes
        parts = (form.feature.size * each, form.carried.size * each, t.block * rows * each)
        panel = sum(parts)
        panels = f"for (int panel = 0; panel < {t.blocks}; ++panel)"
        meet, go_on = "#pragma omp for schedule(static)", "#pragma omp for schedule(static) nowait"
        here = f"packed + panel * {panel}L"
        with self._entry_function():
            self.out.line(f"float* const packed = scratch_floats({t.blocks * panel}L);")
            with self._team(t.is_shared) as is_parallel:
                self._shared(is_parallel, go_on)
                self.out.line(panels)
                count = f"least({t.lanes}, {units} - panel * {t.lanes})"
                self._call("pack", f"panel * {t.lanes}, {count}, {here}, {here} + {parts[0]}", "  ")
                with self.out.block(f"for (int start = 0; start < {steps}; start += {t.block})"):
                    self.out.line(f"const int steps = least({t.block}, {steps} - start);")
                    self._shared(is_parallel, go_on)
                    self.out.line(panels)
                    self._call("input", f"start, steps, {here}, {here} + {parts[0] + parts[1]}", "  ")
                    with self.out.block("for (int step = start; step < start + steps; ++step)"):
                        self._shared(is_parallel, meet)
                        self.out.line(panels)
                        weights, sums = f"{here} + {parts[0]}", f"{here} + {parts[0] + parts[1]}"
                        given = f"step, start, panel * {t.lanes}, {weights}, {sums}"
                        self._call("step", given, "  ")

    def _shared(self, is_parallel: bool, pragma: str) -> None:
        if is_parallel:
            self.out.line(pragma)

    # -- parts of the above ----------------------------------------------------------------------------

    def _address(self, operand: int, along: Axis) -> str:
        """Return the address of an operand's first element along an axis."""
        node = self.form.dag.nodes[operand]
        index = Affine(tuple((a, c) for a, c in node.index.terms if a != along.name), node.index.offset)
        is_first = not index.terms and not index.offset
        return self.pointers[node.name] + ("" if is_first else f" + {self._renderer().index(index)}")

    def _state(self, state: StateBefore, along: Axis) -> str:
        """Return the address of a state's first element along an axis, at a step and row."""
        step = self.axes[self.form.step.name]
        return f"{step} == 0 ? {self._address(state.first, along)} : {self._address(state.own, along)}"

    def _stride(self, state: StateBefore, axis: Axis) -> str:
        """Return how far apart a state's elements lie along an axis."""
        first, own = (self.form.stride(node, axis) for node in (state.first, state.own))
        return str(own) if first == own else f"({self.axes[self.form.step.name]} == 0 ? {first} : {own})"

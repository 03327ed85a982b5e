"""Two dependent reductions in one pass over memory, by chunks that stay in level 1 cache.

Within a chunk both reductions run one after the other; then the chunk's results are merged with those
of the chunks before it. Row form only.
"""

from collections.abc import Callable, Sequence

from kernelwright.ir.dag import StageGroup
from kernelwright.ir.patterns import Moments, Online
from kernelwright.ir.text import bare
from kernelwright.targets.cpp.values import Loop, ValueWriter

CHUNK = 2048
"""Values gone over twice while they are in level 1 cache."""


def write_moments(nest: ValueWriter, pair: Moments, loops: list[Loop], names: tuple[str, str]) -> None:
    """Write mean and variance in one pass; ``names``: of the sum and of the sum of squares.

    Source: Chan, Golub, LeVeque, The American Statistician 37(3), 1983: exact merging of the moments of
    two parts, without the cancellation of sums of raw squares.
    """
    out, render = nest.out, nest.render
    count, mean, squares = (nest.names.new(n) for n in ("count", "mean", "squares"))
    out.line(f"double {count} = 0, {mean} = 0, {squares} = 0;")

    def chunk(start: str, stop: str) -> None:
        part, part_mean, part_squares = (nest.names.new(f"part_{n}") for n in ("sum", "mean", "squares"))
        group = nest.dag.groups[pair.first]
        _pass(nest, group, start, stop, "+", part, "0", lambda v: f"{part} += {v};")
        out.line(f"const double {part_mean} = (double){part} / ({stop} - {start});")
        render.bind(pair.mean, f"(float){part_mean}")
        group = nest.dag.groups[pair.second]
        _pass(nest, group, start, stop, "+", part_squares, "0", lambda v: f"{part_squares} += {v};")
        out.line(f"merge_moments({count}, {mean}, {squares}, {stop} - {start}, {part_mean}, {part_squares});")

    _over_chunks(nest, nest.dag.groups[pair.first], loops, chunk)
    out.line(f"const float {names[0]} = (float)({mean} * {count});")
    out.line(f"const float {names[1]} = (float){squares};")


def write_online(nest: ValueWriter, pair: Online, loops: list[Loop], names: tuple[str, str]) -> None:
    """Write maximum and sum of exponentials in one pass; ``names``: of the maximum and of the sum.

    Source: Milakov, Gimelshein, arXiv 1805.02867: a sum of exponentials is rescaled when its maximum
    grows; here once a chunk instead of once a value.
    """
    out, render = nest.out, nest.render
    top, total, shift = names[0], nest.names.new("total"), nest.names.new("shift")
    out.line(f"float {top} = -INF, {shift} = 0.0f;")
    out.line(f"double {total} = 0;")

    def chunk(start: str, stop: str) -> None:
        part, before = nest.names.new("part_sum"), nest.names.new("shift_before")
        group = nest.dag.groups[pair.first]
        largest = nest.names.new("part_max")
        _pass(
            nest,
            group,
            start,
            stop,
            "nanmax",
            largest,
            "-INF",
            lambda v: f"{largest} = nanmax({largest}, {v});",
        )
        out.line(f"{top} = nanmax({top}, {largest});")
        out.line(f"const float {before} = {shift};")
        with render.scope():
            render.bind(pair.top, top)
            out.line(f"{shift} = {bare(render.text(pair.shift))};")
        out.line(f"if ({shift} == -INF) {shift} = 0.0f;  // nothing but -inf so far")
        with render.scope():
            render.bind(pair.shift, shift)
            group = nest.dag.groups[pair.second]
            _pass(nest, group, start, stop, "+", part, "0", lambda v: f"{part} += {v};")
        out.line(f"{total} = ({total} == 0 ? 0 : {total} * vexp({before} - {shift})) + {part};")

    _over_chunks(nest, nest.dag.groups[pair.first], loops, chunk)
    out.line(f"const float {names[1]} = (float){total};")


def _over_chunks(
    nest: ValueWriter,
    group: StageGroup,
    loops: Sequence[Loop],
    chunk: Callable[[str, str], None],
    level: int = 0,
) -> None:
    """Write the sequential loops, then the loop over chunks of the vector axis."""
    nest.bind_level(group, level, loops)
    if level < len(loops):
        loop = loops[level]
        head = f"for (int {loop.variable} = 0; {loop.variable} < {loop.stop}; ++{loop.variable})"
        with nest.out.block(head), nest.names.scope(), nest.render.scope():
            _over_chunks(nest, group, loops, chunk, level + 1)
        return
    size = nest.sizes[nest.lane_axis]
    if size <= CHUNK:
        with nest.names.scope(), nest.render.scope():
            chunk("0", str(size))
        return
    axis = nest.render.axes[nest.lane_axis]
    start, stop = nest.names.new(f"{axis}_chunk"), nest.names.new(f"{axis}_end")
    with (
        nest.out.block(f"for (int {start} = 0; {start} < {size}; {start} += {CHUNK})"),
        nest.names.scope(),
        nest.render.scope(),
    ):
        nest.out.line(f"const int {stop} = least({start} + {CHUNK}, {size});")
        chunk(start, stop)


def _pass(
    nest: ValueWriter,
    group: StageGroup,
    start: str,
    stop: str,
    combine: str,
    result: str,
    initial: str,
    step: Callable[[str], str],
) -> None:
    """Write one vectorised reduction over a chunk of the vector axis."""
    axis = nest.render.axes[nest.lane_axis]
    nest.out.line(f"float {result} = {initial};")
    nest.out.line(f"#pragma omp simd reduction({combine} : {result})")
    head = f"for (int {axis} = {start}; {axis} < {stop}; ++{axis})"
    with nest.out.block(head), nest.names.scope(), nest.render.scope():
        nest.bind_all(group.actions)
        nest.out.line(step(bare(nest.render.text(group.actions[0].node))))

"""Default schedules and the edits: where they apply, what they refuse, that results stay right."""

import dataclasses
from pathlib import Path

import pytest
import torch
from tests.ir.regions import layer_norm, pool, reduction, run, scan, softmax
from torch import nn

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import Machine
from kernelwright.ir.dag import Dag
from kernelwright.ir.lower import lower
from kernelwright.ir.program import Buffer, BufferRef, Call, Program, Region, StoreTo
from kernelwright.targets.cpp.printer import print_region
from kernelwright.targets.cpp.schedule import CppSchedule
from kernelwright.targets.cpp.schedules import schedule_edits, with_default_schedules
from kernelwright.tasks.capture import capture_module

MACHINE = Machine(cores=2, vector_bytes=64)
EDITS = schedule_edits(MACHINE)


def program_of(region: Region, shape: tuple[int, ...], kind: str = "input") -> Program:
    """One region from x to out, both of one shape; ``temporary``: x comes from a library call."""
    stride = tuple(int(s) for s in torch.empty(shape).stride())
    x = Buffer("x", shape, stride, "float32", kind, 0 if kind == "input" else None)  # type: ignore[arg-type]
    given = Buffer("given", shape, stride, "float32", "input", 0)
    out = Buffer("out", shape, stride, "float32", "temporary")
    steps: tuple[Call | Region, ...] = (region,)
    buffers: tuple[Buffer, ...] = (x, out)
    if kind == "temporary":
        steps = (Call("mm", "torch.mm", (BufferRef("given"), BufferRef("given")), ("x",)), region)
        buffers = (given, x, out)
    return with_default_schedules(Program(buffers, steps, ("out",), returns_tuple=False), MACHINE)


def only_region(program: Program) -> Region:
    """The program's region."""
    return next(s for s in program.steps if isinstance(s, Region))


def test_default_schedule_decides_every_field_that_matters() -> None:
    schedule = only_region(program_of(softmax(512, 1024), (512, 1024))).schedule
    assert schedule.parallel == "kept" and schedule.vector_axis == "j"
    assert schedule.stream is False and schedule.cache_rows is True and schedule.online is False


def test_small_work_gets_no_threads_and_large_output_streams() -> None:
    small = only_region(program_of(softmax(4, 64), (4, 64)))
    large = only_region(program_of(softmax(4096, 4096), (4096, 4096)))
    assert small.schedule.parallel == "none" and "omp parallel" not in print_region(small)
    assert large.schedule.stream is True and "stream_out" in print_region(large)


def test_full_reduction_shares_the_inner_axis() -> None:
    region = reduction(1, 1 << 20, "sum", "both")
    assert "for (int part" in print_region(region)


def test_completed_schedule_prints_the_same_kernel() -> None:
    for region in (softmax(300, 700), layer_norm(64, 5000), pool(8, 33, 3, 2, 1, "max")):
        program = program_of(region, (2, 2))
        assert print_region(only_region(program)) == print_region(region)


@pytest.mark.parametrize(
    ("edit", "region"),
    [
        ("vector-width", softmax(64, 500)),
        ("unroll", softmax(64, 500)),
        ("tile", reduction(400, 300, "sum", "i")),
        ("chunk", reduction(9000, 300, "sum", "i")),
        ("moments", layer_norm(64, 300_000)),
        ("online-softmax", softmax(64, 300_000)),
        ("cache-rows", softmax(64, 500)),
        ("streaming-stores", softmax(1024, 4096)),
        ("rows-together", scan(64, 500, "sum", "j", reverse=False)),
        ("interior-split", pool(8, 33, 3, 1, 1, "max")),
        ("separable-window", pool(8, 33, 3, 1, 1, "max")),
        ("jam", reduction(400, 300, "sum", "i")),
        ("prefetch-distance", softmax(1024, 4096)),
        ("dynamic-blocks", softmax(1024, 4096)),
        ("exp-degree", softmax(64, 500)),
        ("vector-axis", reduction(400, 300, "sum", "i", vector_axis="i")),
    ],
)
def test_each_edit_finds_its_region_and_changes_the_code(edit: str, region: Region) -> None:
    program = program_of(region, (1024, 4096))
    sites = EDITS[edit].sites(program)
    assert [s.region for s in sites] == [region.name]
    site = sites[0]
    assert site.gain >= 1.0 and site.why
    ((name, values),) = site.params.items()
    changed = EDITS[edit].apply(program, region.name, {name: values[0]})
    assert print_region(only_region(changed)) != print_region(only_region(program))


@pytest.mark.parametrize("edit", ["moments", "online-softmax", "interior-split", "rows-together", "tile"])
def test_edits_do_not_offer_themselves_to_pointwise_work(edit: str) -> None:
    region = dataclasses.replace(softmax(64, 500), stages=softmax(64, 500).stages[:1], inner=())
    stage = dataclasses.replace(region.stages[0], kind="map", axes=(), combine=None)
    stage = dataclasses.replace(stage, stores=(StoreTo("out", stage.expr.index),))  # type: ignore[union-attr]
    region = dataclasses.replace(region, kept=softmax(64, 500).kept + softmax(64, 500).inner, stages=(stage,))
    assert EDITS[edit].sites(program_of(region, (64, 500))) == ()


def test_edits_that_would_lose_are_not_offered() -> None:
    program = program_of(softmax(64, 500), (64, 500))
    for edit in ("vector-axis", "online-softmax", "streaming-stores"):
        assert EDITS[edit].sites(program) == ()


def test_epilogue_of_a_matmul_writes_over_its_result_by_default() -> None:
    program = program_of(softmax(8, 64), (8, 64), "temporary")
    mm = dataclasses.replace(program.steps[0], target="torch.ops.aten.mm.default")
    changed = with_default_schedules(dataclasses.replace(program, steps=(mm, program.steps[1])), MACHINE)
    assert changed.outputs == ("x",) and {b.name for b in changed.buffers} == {"given", "x"}
    assert with_default_schedules(program, MACHINE).outputs == (
        "out",
    )  # who knows what torch.mm stands for here


@pytest.mark.parametrize(
    ("edit", "params"),
    [
        ("tile", {"tile": 0}),
        ("tile", {"tile": "wide"}),
        ("tile", {}),
        ("vector-axis", {"vector_axis": "no_such_axis"}),
        ("moments", {"moments": "three_pass"}),
        ("streaming-stores", {"stream": 1}),
    ],
)
def test_values_that_make_no_sense_are_refused(edit: str, params: dict[str, object]) -> None:
    program = program_of(softmax(64, 500), (64, 500))
    with pytest.raises(LoweringError):
        EDITS[edit].apply(program, "softmax", params)  # type: ignore[arg-type]


def test_unknown_region_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LoweringError, match="softmax"):
        EDITS["chunk"].apply(program_of(softmax(64, 500), (64, 500)), "nope", {"chunk": 64})


def test_in_place_epilogue_takes_over_a_dead_temporary(tmp_path: Path) -> None:
    program = program_of(softmax(64, 64), (64, 64), kind="temporary")
    (site,) = EDITS["in-place-epilogue"].sites(program)
    changed = EDITS["in-place-epilogue"].apply(program, site.region, {})
    assert changed.outputs == ("x",) and {b.name for b in changed.buffers} == {"given", "x"}
    x = torch.randn(64, 64)
    want = torch.softmax(x.double(), 1)
    run(only_region(changed), tmp_path, x=x)
    torch.testing.assert_close(x.double(), want, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["input", "returned"])
def test_in_place_epilogue_spares_inputs_and_outputs(kind: str) -> None:
    program = program_of(softmax(64, 64), (64, 64), kind="input" if kind == "input" else "temporary")
    if kind == "returned":
        program = dataclasses.replace(program, outputs=("out", "x"))
    assert EDITS["in-place-epilogue"].sites(program) == ()


def test_in_place_epilogue_refuses_reads_of_neighbours() -> None:
    program = program_of(scan(64, 64, "sum", "j", reverse=False), (64, 64), kind="temporary")
    moved = pool(1, 64, 3, 1, 1, "max")
    assert EDITS["in-place-epilogue"].sites(program)
    steps = (program.steps[0], moved)
    assert EDITS["in-place-epilogue"].sites(dataclasses.replace(program, steps=steps)) == ()


def test_a_sum_of_two_library_results_is_written_over_one_of_them_only() -> None:
    class TwoProducts(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.relu(a @ b + b @ a)

    inputs = [torch.randn(32, 32), torch.randn(32, 32)]
    program = with_default_schedules(lower(capture_module(TwoProducts(), inputs)), MACHINE)
    assert EDITS["in-place-epilogue"].sites(program) == ()
    assert program.outputs[0] in {r for s in program.steps if isinstance(s, Call) for r in s.results}


def test_a_library_result_that_a_later_loop_reads_again_is_not_written_over() -> None:
    class ReadTwice(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = a @ b
            y = torch.relu(h)
            return y, h - h.amax(1, keepdim=True)

    inputs = [torch.randn(32, 32), torch.randn(32, 32)]
    program = with_default_schedules(lower(capture_module(ReadTwice(), inputs)), MACHINE)
    made_by_calls = {r for s in program.steps if isinstance(s, Call) for r in s.results}
    assert program.outputs[0] not in made_by_calls, "the second loop reads it after the first"


def test_a_library_result_that_what_shared_its_loop_reads_is_not_written_over() -> None:
    class Derivative(nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
            h = x @ w
            d = g * torch.exp(h)
            return d @ w, g @ torch.relu(h), d.sum(0)

    inputs = [torch.randn(32, 32), torch.randn(32, 32), torch.randn(32, 32)]
    program = with_default_schedules(lower(capture_module(Derivative(), inputs)), MACHINE)
    for region in (step for step in program.steps if isinstance(step, Region)):
        written: set[str] = set()
        dag = Dag(region)
        for group in dag.groups:
            nodes = [dag.nodes[n] for n in dag.needed([action.node for action in group.actions])]
            assert not written & {node.name for node in nodes if node.kind == "load"}
            written |= {action.store.buffer for action in group.stores if action.store is not None}


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "combine"),
    [(33, 3, 2, 1, "max"), (20, 2, 2, 0, "max"), (28, 5, 3, 2, "sum"), (17, 3, 1, 1, "min")],
)
def test_a_window_in_two_steps_is_the_window(
    tmp_path: Path, size: int, kernel: int, stride: int, padding: int, combine: str
) -> None:
    x = torch.randn(8, size, size, generator=torch.Generator().manual_seed(1))
    if combine == "max":
        x[0, 3, 4], x[1, 5] = float("nan"), float("-inf")
    side = (size + 2 * padding - kernel) // stride + 1
    region = pool(8, size, kernel, stride, padding, combine)
    results = []
    for separable in (True, False):
        out = torch.empty(8, side, side)
        one = dataclasses.replace(region, schedule=CppSchedule(separable=separable))
        assert ("window_rows" in print_region(one)) is separable
        run(one, tmp_path, x=x, out=out)
        results.append(out)
    tolerance = 0 if combine == "max" else 1e-5
    torch.testing.assert_close(results[0], results[1], rtol=tolerance, atol=tolerance, equal_nan=True)


def test_fields_are_set_together_and_points_of_a_region_are_the_same_ones_each_time() -> None:
    program = program_of(softmax(1024, 4096), (1024, 4096))
    edit = EDITS["retune"]
    sites = edit.sites(program)
    assert len(sites) > 3 and sites == edit.sites(program)
    for site in sites:
        params = {name: values[0] for name, values in site.params.items()}
        assert 2 <= len(params) <= 3 and all(len(values) == 1 for values in site.params.values())
        changed = only_region(edit.apply(program, site.region, params)).schedule
        assert all(getattr(changed, name) == value for name, value in params.items()), site.why
    for wrong in ({}, {"warps": 4}, {"unroll": 8, "tile": 0}):
        with pytest.raises(LoweringError):
            edit.apply(program, "softmax", wrong)


@pytest.mark.parametrize("jam", [2, 4, 8])
def test_jammed_loops_combine_what_plain_ones_do(tmp_path: Path, jam: int) -> None:
    x, out = torch.randn(1003, 333), torch.empty(333)
    region = dataclasses.replace(reduction(1003, 333, "sum", "i"), schedule=CppSchedule(jam=jam, tile=64))
    run(region, tmp_path, x=x, out=out)
    torch.testing.assert_close(out.double(), x.double().sum(0), rtol=0, atol=1e-4)

"""The schedule space: every site's every value gives the same results; wrong values are refused."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.interpret import interpret
from tests.ir.lowering_checks import Wrap, regions, tensors_of
from tests.ir.regions import layer_norm, pool, reduction, scan, softmax
from tests.targets.triton.interpreted import Interpreter

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import ANY_GPU, UNKNOWN_MACHINE, Accelerator
from kernelwright.core.task import TolerancePolicy
from kernelwright.ir.lower import lower
from kernelwright.ir.program import Buffer, Program, Region
from kernelwright.targets.triton.defaults import with_triton_schedules
from kernelwright.targets.triton.edits import MAX_PRODUCT, triton_edits
from kernelwright.targets.triton.lowering import LOWERING
from kernelwright.targets.triton.printer import print_kernel
from kernelwright.targets.triton.schedule import TritonSchedule, decide, power_of_two
from kernelwright.targets.triton.split import can_split, split
from kernelwright.tasks.capture import capture_module

EDITS = triton_edits(ANY_GPU)


def program_of(
    region: Region, shape: tuple[int, ...], out: tuple[int, ...], dtype: str = "float32"
) -> Program:
    """A program of one region that reads ``x`` and writes ``out``."""
    buffers = (
        Buffer("x", shape, _dense(shape), "float32", "input", 0),
        Buffer("out", out, _dense(out), dtype, "temporary"),
    )
    return Program(buffers, (region,), ("out",), returns_tuple=False)


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[k + 1 :])) for k in range(len(shape)))


def scheduled(program: Program) -> Program:
    return with_triton_schedules(program, UNKNOWN_MACHINE)


def only(program: Program) -> Region:
    (region,) = program.steps
    assert isinstance(region, Region)
    return region


def row_program(region: Region) -> Program:
    shape = (region.kept[0].size, region.inner[0].size)
    return program_of(dataclasses.replace(region, schedule=TritonSchedule()), shape, shape)


def product_program(rows: int, inner: int, columns: int) -> Program:
    """A product that has taken its epilogue in."""
    inputs = (torch.empty(rows, inner), torch.empty(inner, columns))
    program = lower(capture_module(Wrap(lambda x, w: torch.relu(x @ w)), inputs))
    (site,) = EDITS["triton-matmul"].sites(program)
    return EDITS["triton-matmul"].apply(program, site.region, {})


MAKE: dict[str, Callable[[], Program]] = {
    "few long rows": lambda: row_program(softmax(4, 30_000)),
    "long rows": lambda: row_program(layer_norm(4096, 40_000)),
    "short rows": lambda: row_program(softmax(300_000, 200)),
    "product": lambda: product_program(8192, 64, 2048),
}
REACHED = {
    "few long rows": "form warps stages vector step hints online split",
    "long rows": "form warps stages vector programs moments",
    "short rows": "form warps vector block programs",
    "product": "block columns precision programs warps stages",
}
"""Which edits must find a place there."""


@pytest.mark.parametrize(
    "gpu",
    [Accelerator(kind="cuda"), Accelerator(kind="cuda", units=132), Accelerator(kind="hip", units=304)],
    ids=str,
)
@pytest.mark.parametrize("name", MAKE)
def test_every_value_of_every_site_is_taken_and_prints(name: str, gpu: Accelerator) -> None:
    program, reached = MAKE[name](), set[str]()
    wanted = {f"triton-{edit}" for edit in REACHED[name].split()}
    for edit in triton_edits(gpu).values():
        for site in edit.sites(program):
            assert site.gain >= 1.0 and site.why
            for field, values in site.params.items():
                for value in values:
                    changed = edit.apply(program, site.region, {field: value})
                    assert changed != program
                    assert all(print_kernel(s).text for s in changed.steps if isinstance(s, Region)), value
                    reached.add(edit.name)
    assert reached >= wanted - ({"triton-precision"} if gpu.kind == "hip" else set())
    assert len(reached) >= 5


def test_products_are_rounded_only_as_every_model_of_the_kind_can() -> None:
    program = product_program(64, 32, 48)
    (site,) = triton_edits(Accelerator(kind="cuda"))["triton-precision"].sites(program)
    assert site.params["precision"] == ("tf32x3", "tf32")
    amd = triton_edits(Accelerator(kind="hip"))["triton-precision"]
    assert amd.sites(program) == ()
    with pytest.raises(LoweringError, match="precision cannot be 'tf32'"):
        amd.apply(program, site.region, {"precision": "tf32"})


def test_tiles_of_products_stay_such_that_compilers_end() -> None:
    program = product_program(4096, 64, 4096)
    for _ in range(8):
        for name in ("triton-block", "triton-columns"):
            for site in EDITS[name].sites(program):
                ((field, values),) = site.params.items()
                largest = max(values, key=int)
                program = EDITS[name].apply(program, site.region, {field: largest})
    how = decide(only(program))
    assert how.block_kept * how.block_columns <= MAX_PRODUCT
    with pytest.raises(LoweringError, match="no tile"):
        EDITS["triton-block"].apply(program, how.region.name, {"block_kept": 2048})
    square = product_program(4096, 64, 4096)
    for name, field in (("triton-block", "block_kept"), ("triton-columns", "block_columns")):
        square = EDITS[name].apply(square, only(square).name, {field: 128})
    assert decide(only(square)).num_warps == 8


def test_persistent_programs_are_counted_by_the_device() -> None:
    program = row_program(softmax(300_000, 200))
    (site,) = triton_edits(Accelerator(kind="cuda", units=132))["triton-programs"].sites(program)
    assert site.params["programs"] == (264, 528, 1056) and "132 units" in site.why


def test_results_go_from_the_cache_before_rows_that_are_read_again() -> None:
    long, short = softmax(4, 30_000), softmax(4, 200)
    stores = [line for line in print_kernel(long).text.splitlines() if "tl.store" in line]
    assert stores and all('eviction_policy="evict_first"' in line for line in stores)
    assert "evict" not in print_kernel(short).text
    off = dataclasses.replace(long, schedule=TritonSchedule(hints=False))
    assert "evict" not in print_kernel(off).text


@pytest.mark.parametrize(
    ("edit", "params"),
    [
        ("triton-block", {"block_kept": 48}),
        ("triton-block", {}),
        ("triton-warps", {"num_warps": 64}),
        ("triton-form", {"form": "diagonal"}),
        ("triton-hints", {"hints": 1}),
        ("triton-split", {"parts": 1}),
        ("triton-vector", {"vector_bytes": 12}),
        ("triton-vector", {}),
    ],
)
def test_a_value_that_cannot_be_is_refused(edit: str, params: dict[str, object]) -> None:
    program = program_of(softmax(64, 500), (64, 500), (64, 500))
    with pytest.raises(LoweringError, match=edit):
        EDITS[edit].apply(program, "softmax", params)  # type: ignore[arg-type]


def test_the_rules_choose_a_form_by_where_memory_is_contiguous() -> None:
    assert decide(softmax(4096, 4096)).form == "row"
    assert decide(softmax(4096, 64)).form == "block"
    assert decide(reduction(4096, 512, "sum", "i")).form == "block"
    assert decide(pool(8, 56, 3, 2, 1, "max")).form == "flat"
    assert decide(scan(512, 4096, "sum", "i", reverse=False)).form == "flat"
    assert decide(scan(4096, 512, "sum", "j", reverse=False)).form == "block"
    assert decide(softmax(8, 100_000)).block_inner < 100_000


@given(st.integers(1, 1 << 20))
def test_powers_of_two_cover(count: int) -> None:
    power = power_of_two(count)
    assert count <= power < 2 * count and power & (power - 1) == 0


SPLIT = ("softmax", "norm", "sum", "max", "prod", "argmax", "all")


def split_case(which: str, rows: int, columns: int) -> Program:
    """A program of one region over x (rows, columns): a kind of reduction, or what is made of two."""
    if which in ("softmax", "norm"):
        region = softmax(rows, columns) if which == "softmax" else layer_norm(rows, columns)
        return program_of(region, (rows, columns), (rows, columns))
    over = "both" if which == "all" else "j"
    region = reduction(rows, columns, "sum" if which == "all" else which, over)
    out = () if which == "all" else (rows,)
    return program_of(region, (rows, columns), out, "int64" if which == "argmax" else "float32")


@settings(max_examples=15)
@given(
    rows=st.sampled_from((1, 3)),
    columns=st.sampled_from((2, 7, 12, 31)),
    parts=st.sampled_from((2, 3, 5)),
    which=st.sampled_from(SPLIT),
)
def test_splitting_keeps_the_meaning(rows: int, columns: int, parts: int, which: str) -> None:
    x = torch.rand(rows, columns) + 0.5
    program = split_case(which, rows, columns)
    (region,) = regions(program)
    (want,) = interpret(program, {"x": x}).outputs
    (got,) = interpret(split(program, region, parts), {"x": x}).outputs
    assert want is not None and got is not None
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("which", SPLIT)
def test_what_is_split_is_right_as_printed(interpreter: Interpreter, which: str) -> None:
    x = torch.rand(2, 700) + 0.5
    x[:, 333] = 2.0  # the largest, in a part of its own
    program = split_case(which, 2, 700)
    (want,) = interpret(program, {"x": x}).outputs
    (region,) = regions(program)
    changed = with_triton_schedules(split(program, region, 4), UNKNOWN_MACHINE)
    tensors = {b.name: torch.empty(b.shape, dtype=getattr(torch, b.dtype)) for b in changed.buffers}
    tensors |= {"x": x}
    for step in regions(changed):
        interpreter.run(step, **tensors)
    assert want is not None and len(regions(changed)) > 1
    torch.testing.assert_close(tensors["out"], want, rtol=1e-5, atol=1e-6)


def test_what_is_done_once_a_row_joins_the_last_combination() -> None:
    def moments(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean = x.mean(1, keepdim=True)
        spread = (x - mean).square().mean(1)
        return (x - mean) * spread[:, None], mean * 3.0, spread + 1.0

    x = torch.rand(3, 40)
    module = Wrap(moments)
    captured = capture_module(module, (x,))
    program = lower(captured)
    (region,) = regions(program)
    changed = split(program, region, 4)
    assert [r.name.rsplit("_", 1)[-1] for r in regions(changed)].count("map") == 1
    done = interpret(changed, tensors_of(captured, module, (x,)))
    for got, want in zip(done.outputs, moments(x), strict=True):
        assert got is not None
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def test_a_scan_is_not_split() -> None:
    region = scan(1, 64, "sum", "j", reverse=False)
    assert not can_split(region)
    with pytest.raises(LoweringError, match="could be done in 4 parts"):
        split(program_of(region, (1, 64), (1, 64)), region, 4)


def test_few_long_rows_are_split_by_default_and_add_up(interpreter: Interpreter) -> None:
    region = reduction(2, 40_000, "sum", "j")
    program = with_triton_schedules(program_of(region, (2, 40_000), (2,)), UNKNOWN_MACHINE)
    names = [step.name for step in program.steps]
    assert names == ["reduction_part", "reduction_total"]
    x = torch.rand(2, 40_000)
    tensors = {b.name: torch.empty(b.shape) for b in program.buffers} | {"x": x}
    for step in program.steps:
        assert isinstance(step, Region)
        interpreter.run(step, **tensors)
    torch.testing.assert_close(tensors["out"].double(), x.double().sum(1), rtol=1e-6, atol=0)


def test_strict_tasks_have_no_edit_that_rounds() -> None:
    whole = set(LOWERING.edits_for(UNKNOWN_MACHINE))
    left = {t: whole - set(LOWERING.within(t).edits_for(UNKNOWN_MACHINE)) for t in TolerancePolicy}
    assert [t for t in TolerancePolicy if not left[t]] == [TolerancePolicy.TF32, TolerancePolicy.BF16]
    assert left[TolerancePolicy.STRICT] == left[TolerancePolicy.KERNELBENCH] == {"triton-precision"}

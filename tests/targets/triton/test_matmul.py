"""Matrix products taken into their epilogue's kernel: the same meaning in the loop IR, and as tl.dot."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lab.interpret import interpret
from tests.ir.lowering_checks import Wrap, calls, regions, tensors_of
from tests.targets.triton.interpreted import Interpreter

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import ANY_GPU
from kernelwright.ir.lower import lower
from kernelwright.ir.program import Program, Region
from kernelwright.targets.triton.edits import triton_edits
from kernelwright.targets.triton.schedule import GROUP_ROWS, TritonSchedule, decide
from kernelwright.tasks.capture import capture_module

FUSE = triton_edits(ANY_GPU)["triton-matmul"]
Function = Callable[..., torch.Tensor]
EPILOGUES: dict[str, Function] = {
    "scaled": lambda x, w, b: torch.sigmoid(x @ w) * 2.0,
    "biased": lambda x, w, b: torch.relu(torch.addmm(b, x, w)),
    "columns": lambda x, w, b: (x @ w) * b + b.sum(),
    "transposed": lambda x, w, b: torch.tanh(x @ w.t().contiguous().t() + b),
}


def fused(function: Function, inputs: tuple[torch.Tensor, ...]) -> tuple[Program, dict[str, torch.Tensor]]:
    """Return the program with its product taken in, and its tensors by name."""
    module = Wrap(function)
    captured = capture_module(module, inputs)
    program = lower(captured)
    sites = FUSE.sites(program)
    assert sites, [s for s in program.steps]
    program = FUSE.apply(program, sites[0].region, {})
    assert not calls(program)
    return program, tensors_of(captured, module, inputs)


def operands(rows: int, inner: int, columns: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(rows, inner), torch.randn(inner, columns), torch.randn(columns)


@pytest.mark.parametrize("name", ["scaled", "biased", "columns"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 7, 2)])
def test_the_fused_region_means_the_same(name: str, shape: tuple[int, int, int]) -> None:
    inputs = operands(*shape)
    program, tensors = fused(EPILOGUES[name], inputs)
    (got,) = interpret(program, tensors).outputs
    assert got is not None
    torch.testing.assert_close(got, EPILOGUES[name](*inputs), rtol=1e-5, atol=1e-5)


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.sampled_from((2, 16, 37)),
    inner=st.sampled_from((2, 31, 64)),
    columns=st.sampled_from((2, 17, 80)),
    name=st.sampled_from(("scaled", "biased")),
)
def test_tiles_of_any_shape_match_torch(
    interpreter: Interpreter, rows: int, inner: int, columns: int, name: str
) -> None:
    inputs = operands(rows, inner, columns)
    program, tensors = fused(EPILOGUES[name], inputs)
    (region,) = regions(program)
    schedule = TritonSchedule(form="dot", block_kept=16, block_columns=32, block_inner=16)
    region = dataclasses.replace(region, schedule=schedule)
    assert decide(region).form == "dot"
    out = torch.empty(rows, columns)
    source = interpreter.run(region, **tensors, **{str(program.outputs[0]): out})
    assert "tl.dot(" in source
    torch.testing.assert_close(out, EPILOGUES[name](*inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "choices",
    [
        pytest.param({"num_stages": 1}, marks=pytest.mark.slow),
        {"num_stages": 3, "block_columns": 32},
        pytest.param({"programs": 3}, marks=pytest.mark.slow),
        {"programs": 7, "block_kept": 32, "block_inner": 32, "precision": "tf32x3"},
    ],
    ids=["one stage", "three stages", "persistent", "persistent, wide tiles"],
)
@pytest.mark.parametrize("rows", [9 * 16, 10 * 16 + 3], ids=["one block over", "partial group"])
def test_more_blocks_of_rows_than_a_group_holds(
    interpreter: Interpreter, rows: int, choices: dict[str, object]
) -> None:
    inputs = operands(rows, 24, 40)
    program, tensors = fused(EPILOGUES["biased"], inputs)
    (region,) = regions(program)
    sizes: dict[str, object] = {"block_kept": 16, "block_columns": 16, "block_inner": 16}
    schedule = TritonSchedule(form="dot", **sizes | choices)  # type: ignore[arg-type]
    region = dataclasses.replace(region, schedule=schedule)
    assert decide(region).blocks > GROUP_ROWS
    out = torch.full((rows, 40), float("nan"))
    source = interpreter.run(region, **tensors, **{str(program.outputs[0]): out})
    assert ("range(tl.program_id(0)" in source) == ("programs" in choices)
    torch.testing.assert_close(out, EPILOGUES["biased"](*inputs), rtol=1e-4, atol=1e-4)


BATCHED: dict[str, Function] = {
    "scaled": lambda x, w, b: torch.sigmoid(torch.bmm(x, w)) * 2.0,
    "columns": lambda x, w, b: torch.relu(torch.bmm(x, w) + b),
}


@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (3, 17, 20, 33)], ids=str)
def test_batches_of_products_take_their_epilogue_in(
    interpreter: Interpreter, name: str, shape: tuple[int, int, int, int]
) -> None:
    batches, rows, inner, columns = shape
    inputs = (torch.randn(batches, rows, inner), torch.randn(batches, inner, columns), torch.randn(columns))
    program, tensors = fused(BATCHED[name], inputs)
    want = BATCHED[name](*inputs)
    if rows < 16:
        (got,) = interpret(program, tensors).outputs
        assert got is not None
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    (region,) = regions(program)
    schedule = TritonSchedule(form="dot", block_kept=16, block_columns=16, block_inner=16)
    region = dataclasses.replace(region, schedule=schedule)
    dot = decide(region).dot
    assert dot is not None and dot.batch
    out = torch.full((batches, rows, columns), float("nan"))
    interpreter.run(region, **tensors, **{str(program.outputs[0]): out})
    torch.testing.assert_close(out, want, rtol=1e-4, atol=1e-4)


def test_a_product_that_somebody_else_reads_stays_a_call() -> None:
    def twice(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        product = x @ w
        return torch.relu(product) @ product.t()

    program = lower(capture_module(Wrap(twice), operands(4, 4, 4)))
    assert FUSE.sites(program) == ()
    region = next(s.name for s in program.steps if isinstance(s, Region))
    with pytest.raises(LoweringError, match="pointwise reader"):
        FUSE.apply(program, region, {})

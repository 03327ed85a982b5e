"""Printed kernels in Triton's interpreter against torch: every form, awkward sizes, NaN and infinities."""

import dataclasses

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.ir.regions import layer_norm, op, pointwise, pool, reduction, scan, softmax
from tests.targets.triton.interpreted import Interpreter

from kernelwright.ir.program import Const, Region
from kernelwright.targets.triton.schedule import TritonSchedule

SIZES = (1, 2, 3, 16, 17, 31, 33, 64)
few = settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
FORMS = {
    "rules": {},
    "flat": {"form": "flat", "block_kept": 16},
    "row": {"form": "row", "block_inner": 16},
    "block": {"form": "block", "block_kept": 4, "block_inner": 8},
    "persistent": {"form": "block", "block_kept": 8, "block_inner": 8, "programs": 2},
    "one pass": {"form": "row", "block_inner": 16, "programs": 3, "hints": False, "moments": "one_pass"},
}
each_form = pytest.mark.parametrize("choices", FORMS.values(), ids=FORMS)


def scheduled(region: Region, choices: dict[str, object]) -> Region:
    return dataclasses.replace(region, schedule=TritonSchedule(**choices))  # type: ignore[arg-type]


def close(
    got: torch.Tensor, want: torch.Tensor, *, factor: float = 8.0, largest: float | None = None
) -> None:
    """Within a few float32 roundings of the largest value on the way; NaN in the same places."""
    assert torch.equal(got.isnan(), want.isnan())
    finite = want[want.isfinite()]
    scale = largest if largest is not None else float(finite.abs().max()) if finite.numel() else 1.0
    torch.testing.assert_close(
        got.double(), want.double(), rtol=0, atol=factor * 1.2e-7 * max(scale, 1e-30), equal_nan=True
    )


@each_form
@few
@given(rows=st.sampled_from(SIZES), columns=st.sampled_from((*SIZES, 1100)))
def test_pointwise_chain_matches_torch(
    interpreter: Interpreter, rows: int, columns: int, choices: dict[str, object]
) -> None:
    x, bias = torch.randn(rows, columns), torch.randn(columns)
    x[0, -1] = float("nan")
    out = torch.empty_like(x)
    region = pointwise(rows, columns, lambda x, b: op("max", op("add", x, b), Const(0.0, "float32")))
    interpreter.run(scheduled(region, choices), x=x, bias=bias, out=out)
    assert torch.equal(out.nan_to_num(7), torch.relu(x + bias).nan_to_num(7))


@each_form
@few
@given(rows=st.sampled_from((1, 3, 5)), columns=st.sampled_from(SIZES), online=st.booleans())
def test_softmax_matches_torch(
    interpreter: Interpreter, rows: int, columns: int, choices: dict[str, object], online: bool
) -> None:
    x = torch.randn(rows, columns) * 5
    x[-1, 0] = float("nan")
    if rows > 1 and columns > 1:
        x[0, :-1] = float("-inf")
    out = torch.empty_like(x)
    interpreter.run(scheduled(softmax(rows, columns), choices | {"online": online}), x=x, out=out)
    close(out, torch.softmax(x.double(), 1))


@each_form
@few
@given(rows=st.sampled_from((1, 3)), columns=st.sampled_from(SIZES))
def test_layer_norm_keeps_precision_far_from_zero(
    interpreter: Interpreter, rows: int, columns: int, choices: dict[str, object]
) -> None:
    x = torch.randn(rows, columns) + 100
    out = torch.empty_like(x)
    interpreter.run(scheduled(layer_norm(rows, columns), choices), x=x, out=out)
    want = torch.nn.functional.layer_norm(x.double(), (columns,))
    theirs = (torch.nn.functional.layer_norm(x, (columns,)) - want).abs().max()
    assert (out - want).abs().max() <= 4 * theirs + 2e-5


@each_form
@few
@given(
    rows=st.sampled_from(SIZES),
    columns=st.sampled_from(SIZES),
    over=st.sampled_from(("i", "j", "both")),
    combine=st.sampled_from(("sum", "max", "min", "argmax", "argmin", "prod")),
)
@example(rows=2, columns=1, over="i", combine="argmax")
def test_reductions_match_torch(
    interpreter: Interpreter, rows: int, columns: int, over: str, choices: dict[str, object], combine: str
) -> None:
    x = torch.randint(-3, 4, (rows, columns)).float() if "arg" in combine else torch.randn(rows, columns)
    if combine == "prod":
        x = 1 + x * 1e-3
    elif combine != "sum":
        x[rows // 2, columns // 3] = float("nan")
    dims = {"i": (0,), "j": (1,), "both": (0, 1)}[over]
    if combine in ("argmax", "argmin") and over == "both":
        return  # positions over two axes are one flat index, which this helper does not make
    shape = [n for d, n in enumerate((rows, columns)) if d not in dims]
    out = torch.empty(shape, dtype=torch.int64 if "arg" in combine else torch.float32)
    interpreter.run(scheduled(reduction(rows, columns, combine, over), choices), x=x, out=out)
    if "arg" in combine:
        assert torch.equal(out, getattr(torch, combine)(x, dims[0]))
    elif combine == "prod":
        close(out, x.double().flatten().prod() if over == "both" else x.double().prod(dims[0]), factor=60)
    elif combine == "sum":  # terms of either sign: what is left of them says nothing of the roundings
        close(out, x.double().sum(dims), largest=float(x.abs().sum(dims).max()))
    else:
        close(out, getattr(torch, {"max": "amax", "min": "amin"}[combine])(x.double(), dims))


@each_form
@few
@given(
    images=st.integers(1, 3),
    size=st.sampled_from((4, 7, 12)),
    kernel=st.sampled_from((1, 2, 3)),
    step=st.sampled_from((1, 2)),
    combine=st.sampled_from(("sum", "max")),
)
def test_pooling_windows_match_torch(
    interpreter: Interpreter,
    images: int,
    size: int,
    kernel: int,
    step: int,
    combine: str,
    choices: dict[str, object],
) -> None:
    padding = kernel // 2
    x = torch.randn(images, size, size)
    x[-1, size // 2, size // 2] = float("nan")
    region = pool(images, size, kernel, step, padding, combine)
    functional = torch.nn.functional
    if combine == "max":
        want = functional.max_pool2d(x[None], kernel, step, padding)[0]
    else:
        want = functional.avg_pool2d(x[None], kernel, step, padding, divisor_override=1)[0]
    out = torch.empty_like(want)
    interpreter.run(scheduled(region, choices), x=x, out=out)
    close(out, want)


@each_form
@few
@given(
    rows=st.sampled_from((1, 3, 17)),
    columns=st.sampled_from((1, 2, 31, 40)),
    combine=st.sampled_from(("sum", "prod", "max", "min")),
    axis=st.sampled_from(("i", "j")),
    reverse=st.booleans(),
)
def test_scans_match_torch(
    interpreter: Interpreter,
    rows: int,
    columns: int,
    combine: str,
    axis: str,
    reverse: bool,
    choices: dict[str, object],
) -> None:
    x = torch.rand(rows, columns) + 0.5
    dim = 0 if axis == "i" else 1
    out = torch.empty_like(x)
    region = scan(rows, columns, combine, axis, reverse=reverse)
    interpreter.run(scheduled(region, choices), x=x, out=out)
    flipped = x.double().flip(dim) if reverse else x.double()
    want = {
        "sum": lambda: flipped.cumsum(dim), "prod": lambda: flipped.cumprod(dim),
        "max": lambda: flipped.cummax(dim).values, "min": lambda: flipped.cummin(dim).values,
    }[combine]()  # fmt: skip
    torch.testing.assert_close(out.double(), want.flip(dim) if reverse else want, rtol=2e-6, atol=1e-6)

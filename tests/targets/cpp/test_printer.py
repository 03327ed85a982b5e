"""Printed kernels against torch: every form, awkward sizes, NaN and infinities."""

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ir.regions import layer_norm, op, pointwise, pool, reduction, run, scan, softmax

from kernelwright.ir.normalise import map_loads
from kernelwright.ir.program import Const
from kernelwright.targets.cpp.printer import print_region, print_source

SIZES = (1, 2, 15, 16, 17, 33, 64, 100)
few = settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])


def close(got: torch.Tensor, want: torch.Tensor, *, factor: float = 4.0) -> None:
    """Within a few float32 roundings of the largest value; NaN in the same places."""
    assert torch.equal(got.isnan(), want.isnan())
    scale = float(want[want.isfinite()].abs().max()) if bool(want.isfinite().any()) else 1.0
    torch.testing.assert_close(
        got.double(), want.double(), rtol=0, atol=factor * 1.2e-7 * max(scale, 1e-30), equal_nan=True
    )


@few
@given(rows=st.sampled_from(SIZES), columns=st.sampled_from((*SIZES, 5000)), stream=st.booleans())
def test_pointwise_chain_matches_torch(tmp_path: Path, rows: int, columns: int, stream: bool) -> None:
    x, bias = torch.randn(rows, columns), torch.randn(columns)
    x[0, -1] = float("nan")
    out = torch.empty_like(x)
    region = pointwise(
        rows, columns, lambda x, b: op("max", op("add", x, b), Const(0.0, "float32")), stream=stream
    )
    run(region, tmp_path, x=x, bias=bias, out=out)
    assert torch.equal(out.nan_to_num(7), torch.relu(x + bias).nan_to_num(7))


@few
@given(
    rows=st.sampled_from((1, 3, 17)),
    columns=st.sampled_from((*SIZES, 5000)),
    cache=st.booleans(),
    online=st.booleans(),
    unroll=st.sampled_from((1, 4)),
)
def test_softmax_matches_torch(
    tmp_path: Path, rows: int, columns: int, cache: bool, online: bool, unroll: int
) -> None:
    x = torch.randn(rows, columns) * 5
    x[-1, 0] = float("nan")
    if rows > 1 and columns > 1:
        x[1, :-1] = float("-inf")
    out = torch.empty_like(x)
    run(softmax(rows, columns, cache_rows=cache, online=online, unroll=unroll), tmp_path, x=x, out=out)
    close(out, torch.softmax(x.double(), 1), factor=16.0)  # the sum of a long row rounds many times


def test_online_softmax_survives_leading_chunks_of_minus_infinity(tmp_path: Path) -> None:
    x = torch.full((1, 6000), float("-inf"))
    x[0, 5000:] = torch.randn(1000)
    out = torch.empty_like(x)
    run(softmax(1, 6000, online=True, parallel="none"), tmp_path, x=x, out=out)
    close(out, torch.softmax(x.double(), 1))


@pytest.mark.parametrize("moments", ["one_pass", "two_pass"])
@pytest.mark.parametrize(
    ("rows", "columns", "parallel"), [(3, 17, "kept"), (2, 5000, "kept"), (1, 5000, "inner")]
)
def test_layer_norm_keeps_precision_far_from_zero(
    tmp_path: Path, moments: str, rows: int, columns: int, parallel: str
) -> None:
    x = torch.randn(rows, columns) + 100
    out = torch.empty_like(x)
    run(layer_norm(rows, columns, moments=moments, parallel=parallel), tmp_path, x=x, out=out)
    want = torch.nn.functional.layer_norm(x.double(), (columns,))
    theirs = (torch.nn.functional.layer_norm(x, (columns,)) - want).abs().max()
    floor = 8e-6  # the referee's, for rows of thousands
    assert (out - want).abs().max() <= 4 * theirs + floor


@few
@given(
    rows=st.sampled_from(SIZES),
    columns=st.sampled_from((*SIZES, 3000)),
    over=st.sampled_from(("i", "j", "both")),
    parallel=st.sampled_from((None, "kept", "inner", "none")),
    combine=st.sampled_from(("sum", "max", "min", "argmax", "argmin", "prod")),
)
def test_reductions_match_torch(
    tmp_path: Path, rows: int, columns: int, over: str, parallel: str | None, combine: str
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
    run(reduction(rows, columns, combine, over, parallel=parallel), tmp_path, x=x, out=out)
    if "arg" in combine:
        assert torch.equal(out, getattr(torch, combine)(x, dims[0]))
    elif combine == "prod":
        want = x.double().flatten().prod() if over == "both" else x.double().prod(dims[0])
        close(out, want, factor=40 + 2 * (x.numel() / max(out.numel(), 1)) ** 0.5)  # roundings add up
    elif combine == "sum":  # may cancel: what is lost is a share of what is added up
        lost = (out - x.double().sum(dims)).abs()
        assert bool((lost <= 4 * 1.2e-7 * x.double().abs().sum(dims)).all())
    else:
        close(out, getattr(torch, {"max": "amax", "min": "amin"}[combine])(x.double(), dims))


def test_long_sums_are_as_exact_as_torch(tmp_path: Path) -> None:
    x = torch.rand(1 << 20)
    out = torch.empty(())
    run(reduction(1, 1 << 20, "sum", "both"), tmp_path, x=x, out=out)
    assert abs(float(out) - float(x.double().sum())) <= abs(float(x.sum()) - float(x.double().sum())) + 0.1


@few
@given(
    rows=st.sampled_from((1, 8, 17)),
    columns=st.sampled_from((1, 7, 64, 65, 300)),
    axis=st.sampled_from(("i", "j")),
    reverse=st.booleans(),
    combine=st.sampled_from(("sum", "prod")),
    together=st.sampled_from((None, 8)),
)
def test_scans_match_torch(
    tmp_path: Path, rows: int, columns: int, axis: str, reverse: bool, combine: str, together: int | None
) -> None:
    x = 1 + torch.randn(rows, columns) * 0.1
    out = torch.empty_like(x)
    dim = {"i": 0, "j": 1}[axis]
    region = scan(rows, columns, combine, axis, reverse=reverse, rows_together=together)
    run(region, tmp_path, x=x, out=out)
    flipped = x.double().flip(dim) if reverse else x.double()
    want = flipped.cumsum(dim) if combine == "sum" else flipped.cumprod(dim)
    close(out, want.flip(dim) if reverse else want, factor=1)


@few
@given(
    size=st.sampled_from((5, 16, 33, 70)),
    window=st.sampled_from(((2, 2, 0), (3, 1, 1), (3, 2, 1), (5, 3, 2), (7, 1, 3))),
    combine=st.sampled_from(("max", "sum")),
    split=st.booleans(),
)
def test_pooling_matches_torch(
    tmp_path: Path, size: int, window: tuple[int, int, int], combine: str, split: bool
) -> None:
    kernel, step, padding = window
    x = torch.randn(4, size, size)
    x[1, 0, 0] = float("nan")
    pooled = torch.nn.functional.max_pool2d(x, kernel, step, padding)
    if combine == "sum":
        pooled = torch.nn.functional.avg_pool2d(x.double(), kernel, step, padding) * kernel**2
    out = torch.empty(pooled.shape)
    run(pool(4, size, kernel, step, padding, combine, interior_split=split), tmp_path, x=x, out=out)
    close(out, pooled, factor=10)


@pytest.mark.parametrize("vector_axis", ["i", "j"])
def test_either_axis_can_be_vectorised(tmp_path: Path, vector_axis: str) -> None:
    x = torch.randn(37, 53)
    out = torch.empty_like(x)
    run(softmax(37, 53, vector_axis=vector_axis), tmp_path, x=x, out=out)
    close(out, torch.softmax(x.double(), 1))


def test_printing_is_deterministic_and_carries_only_what_it_uses() -> None:
    region = softmax(64, 100)
    assert print_region(region) == print_region(region)
    source = print_source((region,))
    assert "vexp" in source and "vtanh" not in source


def test_equal_subexpressions_are_computed_once() -> None:
    def twice(x, b):  # type: ignore[no-untyped-def]
        return op("mul", op("tanh", op("add", x, b)), op("tanh", op("add", x, b)))

    assert print_region(pointwise(8, 64, twice)).count("vtanh") == 1


def test_costly_producer_of_several_passes_is_computed_once(tmp_path: Path) -> None:
    region = map_loads(layer_norm(64, 512), lambda load: op("tanh", load))  # type: ignore[arg-type,return-value]
    source = print_region(region)
    assert source.count("vtanh(") == 1
    x = torch.randn(64, 512)
    out = torch.empty(64, 512)
    run(region, tmp_path, x=x, out=out)
    torch.testing.assert_close(out, torch.nn.functional.layer_norm(x.tanh(), (512,)), rtol=1e-4, atol=1e-5)


def test_rows_are_read_ahead_where_memory_would_wait() -> None:
    assert print_region(softmax(8192, 1024)).count("__builtin_prefetch") == 1
    assert "__builtin_prefetch" not in print_region(softmax(64, 1024))  # fits the cache
    assert "__builtin_prefetch" not in print_region(softmax(64, 100_000))  # the next row would not stay

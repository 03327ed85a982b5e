"""The vectorised mathematics against float64."""

import ctypes
import math
import subprocess

import numpy as np
import pytest

from kernelwright.targets.cpp.prelude import blocks, prelude_for
from kernelwright.targets.cpp.runtime_source import cxx_flags

REFERENCE = {
    "vexp": np.exp, "vexp2": np.exp2, "vexpm1": np.expm1, "vlog": np.log, "vlog2": np.log2,
    "vlog10": np.log10, "vlog1p": np.log1p, "vtanh": np.tanh, "vsin": np.sin, "vcos": np.cos,
    "vsinh": np.sinh, "vcosh": np.cosh, "vsoftplus": lambda x: np.logaddexp(0, x),
    "vtanh_softplus": lambda x: np.tanh(np.logaddexp(0, x)),
    "verf": np.vectorize(math.erf), "vsigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.0, -1.0, 88.72, 88.73, -87.4, -103.9, 89.4]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("prelude")
    source = "".join(
        f'extern "C" void each_{name}(const float* __restrict x, float* __restrict y, int n) {{\n'
        f"#pragma omp simd\n  for (int i = 0; i < n; ++i) y[i] = {name}(x[i]);\n}}\n"
        for name in (*REFERENCE, "vone_plus_erf")
    )
    (folder / "m.cpp").write_text(prelude_for(source) + source)
    command = ["g++", *cxx_flags(), "-shared", "-fPIC", "m.cpp", "-o", "m.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "m.so"))


def samples(name: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal(20000), rng.uniform(-110, 110, 20000), 1 + rng.standard_normal(5000) * 1e-3]
    powers = 10 ** rng.uniform(-45, 8 if name in ("vsin", "vcos") else 38, 20000)
    return np.concatenate([*parts, powers, -powers, EDGES]).astype(np.float32)


@pytest.mark.parametrize("name", REFERENCE)
def test_function_is_within_three_ulp_and_right_at_the_edges(library: ctypes.CDLL, name: str) -> None:
    x = samples(name)
    got = np.empty_like(x)
    library[f"each_{name}"](x.ctypes.data_as(ctypes.c_void_p), got.ctypes.data_as(ctypes.c_void_p), len(x))
    with np.errstate(all="ignore"):
        want = REFERENCE[name](x.astype(np.float64))
        single = want.astype(np.float32)
    if name == "vsigmoid":  # torch's own also goes to zero where exp(-x) overflows
        single, want = np.where(x < -88, got, single), np.where(x < -88, got, want)
    if name in ("vexp", "vsoftplus", "vtanh_softplus"):  # results hardly above the subnormal ones are zero
        tiny = (np.abs(single) < 1.7e-38) & (got == 0)
        single, want = np.where(tiny, 0, single), np.where(tiny, 0, want)
    assert np.array_equal(np.isnan(got), np.isnan(single))
    assert np.array_equal(got[np.isinf(single)], single[np.isinf(single)])
    assert np.array_equal(np.signbit(got[x == 0]), np.signbit(single[x == 0]))
    finite = np.isfinite(single)
    spacing = np.maximum(np.spacing(np.abs(single[finite])).astype(np.float64), 1.4e-45)
    assert float((np.abs(got[finite] - want[finite]) / spacing).max()) <= 3.0


def test_one_plus_erf_is_close_absolutely(library: ctypes.CDLL) -> None:
    x = samples("vone_plus_erf")
    got = np.empty_like(x)
    library.each_vone_plus_erf(x.ctypes.data_as(ctypes.c_void_p), got.ctypes.data_as(ctypes.c_void_p), len(x))
    want = np.array([1 + math.erf(v) for v in x.astype(np.float64)])
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert float(np.nanmax(np.abs(got - want))) <= 1.8e-7


def test_blocks_need_only_blocks_that_exist() -> None:
    assert all(need in blocks() for block in blocks().values() for need in block.needs)


def test_prelude_brings_what_a_function_stands_on() -> None:
    text = prelude_for("y = vsoftplus(x);")
    assert all(word in text for word in ("log_tail", "vexp(", "bits_of", "INF"))
    assert "verf(" not in text

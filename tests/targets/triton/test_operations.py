"""Every pointwise operation of the loop IR, printed as Triton, against numpy in float64."""

import numpy as np
import pytest
import torch
from lab.interpret import interpret
from tests.ir.regions import at
from tests.targets.triton.interpreted import Interpreter

from kernelwright.core.errors import LoweringError
from kernelwright.ir.program import (
    OPS,
    Axis,
    Buffer,
    DType,
    Expr,
    Load,
    LoopStage,
    Op,
    Program,
    Region,
    StoreTo,
)
from kernelwright.targets.triton.printer import print_kernel

N = 61
RANGES = {
    "sqrt": (0.0, 50.0), "rsqrt": (0.01, 50.0), "log": (1e-6, 50.0), "log2": (1e-6, 50.0),
    "log10": (1e-6, 50.0), "log1p": (-0.9, 5.0), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0), "pow": (0.1, 4.0),
    "tan": (-1.4, 1.4), "reciprocal": (0.5, 3.0), "expm1": (-3.0, 3.0), "sinh": (-5.0, 5.0),
}  # fmt: skip
"""Where an operation is tried; elsewhere from -9 to 9."""
LOGIC = ("and", "or", "xor", "not")
TRUTH = (*LOGIC, "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf")
NOT_FLOAT = ("floordiv", "cast")


def region_of(name: str, dtype: DType) -> Region:
    """out[i] = name(x[i], y[i], z[i])."""
    values: list[Expr] = [Load(b, at(i=1), dtype) for b in ("x", "y", "z")[: OPS[name]]]
    if name in LOGIC:
        values = [Op("lt", (v, Load("z", at(i=1), dtype)), "bool") for v in values]
    if name == "where":
        values[0] = Op("lt", (values[0], values[1]), "bool")
    result: DType = "bool" if name in TRUTH else dtype
    stage = LoopStage(
        "y", "map", (), Op(name, tuple(values), result), result, stores=(StoreTo("out", at(i=1)),)
    )
    return Region("operation", (Axis("i", N),), (), (stage,))


def reference(region: Region, tensors: dict[str, torch.Tensor], dtype: str) -> torch.Tensor:
    buffers = tuple(Buffer(n, (N,), (1,), dtype, "input", k) for k, n in enumerate(tensors))
    result = region.stages[0].dtype
    out = Buffer("out", (N,), (1,), result, "temporary")
    program = Program((*buffers, out), (region,), ("out",), returns_tuple=False)
    (found,) = interpret(program, tensors).outputs
    assert found is not None
    return found


@pytest.mark.parametrize("name", sorted(set(OPS) - set(NOT_FLOAT)))
def test_operation_matches_numpy(interpreter: Interpreter, name: str) -> None:
    low, high = RANGES.get(name, (-9.0, 9.0))
    rng = np.random.default_rng(7)
    tensors = {b: torch.from_numpy(rng.uniform(low, high, N).astype("float32")) for b in ("x", "y", "z")}
    tensors["x"][:6] = torch.tensor([low, high, 0.5 * (low + high) + 0.5, 0.5, 1.0, low + 0.25])
    want = reference(region_of(name, "float64"), {k: v.double() for k, v in tensors.items()}, "float64")
    out = torch.empty(N, dtype=torch.bool if name in TRUTH else torch.float32)
    interpreter.run(region_of(name, "float32"), **tensors, out=out)
    if name in TRUTH:
        assert torch.equal(out, want)
    else:
        torch.testing.assert_close(out.double(), want, rtol=3e-6 if name == "pow" else 1e-6, atol=3e-7)


@pytest.mark.parametrize("name", ["floordiv", "remainder", "fmod", "min", "add", "sign", "abs"])
def test_integers_round_as_numpy_does(interpreter: Interpreter, name: str) -> None:
    rng = np.random.default_rng(7)
    tensors = {b: torch.from_numpy(rng.integers(-20, 20, N)) for b in ("x", "y", "z")}
    tensors["y"][tensors["y"] == 0] = 3
    out = torch.empty(N, dtype=torch.int64)
    interpreter.run(region_of(name, "int64"), **tensors, out=out)
    assert torch.equal(out, reference(region_of(name, "int64"), tensors, "int64"))


@pytest.mark.parametrize("name", sorted(set(OPS) - {*NOT_FLOAT, *TRUTH, "pow"}))
def test_operation_is_exact_in_float64(interpreter: Interpreter, name: str) -> None:
    low, high = RANGES.get(name, (-9.0, 9.0))
    rng = np.random.default_rng(7)
    tensors = {b: torch.from_numpy(rng.uniform(low, high, N)) for b in ("x", "y", "z")}
    tensors["x"][:6] = torch.tensor([low, high, 0.5, 1e-9 + max(low, 0.0), 1.0, 0.3])
    want = reference(region_of(name, "float64"), tensors, "float64")
    out = torch.empty(N, dtype=torch.float64)
    interpreter.run(region_of(name, "float64"), **tensors, out=out)
    torch.testing.assert_close(out, want, rtol=1e-14, atol=1e-15)


def test_float64_is_refused_where_the_function_is_no_more_exact_than_float32() -> None:
    with pytest.raises(LoweringError, match="float64 pow"):
        print_kernel(region_of("pow", "float64"))

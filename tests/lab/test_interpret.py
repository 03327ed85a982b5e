"""The interpreter refuses programs that leave their buffers and does what the IR says."""

import numpy as np
import pytest
import torch
from lab.interpret import interpret

from kernelwright.ir.program import (
    Affine,
    Axis,
    Bound,
    Buffer,
    Const,
    Load,
    LoopStage,
    Op,
    Program,
    Region,
    StoreTo,
)


def one_stage(
    stage: LoopStage, kept: tuple[Axis, ...], inner: tuple[Axis, ...], out: tuple[int, ...]
) -> Program:
    stride = tuple(int(np.prod(out[k + 1 :])) for k in range(len(out)))
    buffers = (
        Buffer("x", (5,), (1,), "float32", "input", 0),
        Buffer("y", out, stride, stage.dtype, "temporary"),
    )
    return Program(buffers, (Region("r", kept, inner, (stage,)),), ("y",), False)


def index(offset: int = 0, **terms: int) -> Affine:
    return Affine(tuple(sorted(terms.items())), offset)


X = torch.tensor([3.0, -1.0, 7.0, 7.0, 2.0])


def test_load_outside_its_buffer_is_an_error() -> None:
    stage = LoopStage(
        "s", "map", (), Load("x", index(1, i=1), "float32"), "float32", stores=(StoreTo("y", index(i=1)),)
    )
    with pytest.raises(IndexError, match=r"x: 1\.\.5 outside 0\.\.4"):
        interpret(one_stage(stage, (Axis("i", 5),), (), (5,)), {"x": X})


def test_bounded_load_gives_otherwise() -> None:
    load = Load("x", index(1, i=1), "float32", (Bound(index(1, i=1), 5),), otherwise=9.0)
    stage = LoopStage("s", "map", (), load, "float32", stores=(StoreTo("y", index(i=1)),))
    done = interpret(one_stage(stage, (Axis("i", 5),), (), (5,)), {"x": X})
    assert done.outputs[0] is not None and done.outputs[0].tolist() == [-1.0, 7.0, 7.0, 2.0, 9.0]


def test_store_outside_its_buffer_is_an_error() -> None:
    stage = LoopStage("s", "map", (), Const(1.0, "float32"), "float32", stores=(StoreTo("y", index(i=2)),))
    with pytest.raises(IndexError, match="y"):
        interpret(one_stage(stage, (Axis("i", 5),), (), (5,)), {"x": X})


def test_argmax_reports_the_first_position() -> None:
    load = Load("x", index(r=1), "float32")
    stage = LoopStage(
        "s", "reduce", ("r",), load, "int64", "argmax", index(r=1), stores=(StoreTo("y", index()),)
    )
    done = interpret(one_stage(stage, (), (Axis("r", 5),), ()), {"x": X})
    assert int(done.outputs[0]) == 2  # type: ignore[arg-type]  # an output of this program is a tensor


def test_reverse_scan_starts_at_the_end() -> None:
    double = Op("mul", (Load("x", index(r=1), "float32"), Const(2.0, "float32")), "float32")
    stage = LoopStage(
        "s", "scan", ("r",), double, "float32", "sum", None, "r", True, (StoreTo("y", index(r=1)),)
    )
    done = interpret(one_stage(stage, (), (Axis("r", 5),), (5,)), {"x": X})
    assert done.outputs[0] is not None and done.outputs[0].tolist() == [36.0, 30.0, 32.0, 18.0, 4.0]

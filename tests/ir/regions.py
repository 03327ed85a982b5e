"""Hand-made regions, and a way to run them, for the printer's tests."""

import ctypes
import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import torch

from kernelwright.ir.arguments import signature
from kernelwright.ir.program import (
    Affine,
    Axis,
    Bound,
    Const,
    Expr,
    Load,
    LoopStage,
    Op,
    Region,
    StageValue,
    StoreTo,
)
from kernelwright.targets.cpp.printer import print_source
from kernelwright.targets.cpp.runtime_source import cxx_flags
from kernelwright.targets.cpp.schedule import CppSchedule

F = "float32"


def at(offset: int = 0, **terms: int) -> Affine:
    """An affine index from keyword terms."""
    return Affine(tuple(sorted((k, v) for k, v in terms.items() if v)), offset)


def op(name: str, *args: Expr, dtype: str = F) -> Op:
    """An operation of float32 unless said otherwise."""
    return Op(name, args, dtype)  # type: ignore[arg-type]


def run(region: Region, folder: Path, **tensors: torch.Tensor) -> None:
    """Print, compile and call one region on tensors by buffer name."""
    source = print_source((region,))
    library = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.so"
    if not library.exists():
        text = library.with_suffix(".cpp")
        text.write_text(source)
        command = ["g++", *cxx_flags(), "-Wall", "-Werror", "-Wno-unused-function", "-shared", "-fPIC"]
        done = subprocess.run([*command, str(text), "-o", str(library)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:] + source
    function = ctypes.CDLL(str(library))[region.name]
    arguments = signature(region)
    function.argtypes = [ctypes.c_void_p] * len(arguments)
    function(*[tensors[a.buffer].data_ptr() for a in arguments])


def pointwise(rows: int, columns: int, fn: Callable[[Expr, Expr], Expr], **schedule: object) -> Region:
    """fn(x[i, j], bias[j])."""
    value = fn(Load("x", at(i=columns, j=1), F), Load("bias", at(j=1), F))
    stage = LoopStage("y", "map", (), value, F, stores=(StoreTo("out", at(i=columns, j=1)),))
    return Region("chain", (Axis("i", rows), Axis("j", columns)), (), (stage,), CppSchedule(**schedule))  # type: ignore[arg-type]


def softmax(rows: int, columns: int, **schedule: object) -> Region:
    """Softmax along rows."""
    x = Load("x", at(i=columns, j=1), F)
    e = op("exp", op("sub", x, StageValue("top", F)))
    return Region(
        "softmax",
        (Axis("i", rows),),
        (Axis("j", columns),),
        (
            LoopStage("top", "reduce", ("j",), x, F, "max"),
            LoopStage("total", "reduce", ("j",), e, F, "sum"),
            LoopStage("y", "map", ("j",), op("div", e, StageValue("total", F)), F,
                  stores=(StoreTo("out", at(i=columns, j=1)),)),
        ),
        CppSchedule(**schedule),  # type: ignore[arg-type]
    )  # fmt: skip


def layer_norm(rows: int, columns: int, **schedule: object) -> Region:
    """Layer norm along rows, without weights."""
    x = Load("x", at(i=columns, j=1), F)
    n = Const(float(columns), F)
    distance = op("sub", x, op("div", StageValue("total", F), n))
    variance = op("add", op("div", StageValue("squares", F), n), Const(1e-5, F))
    return Region(
        "layer_norm",
        (Axis("i", rows),),
        (Axis("j", columns),),
        (
            LoopStage("total", "reduce", ("j",), x, F, "sum"),
            LoopStage("squares", "reduce", ("j",), op("square", distance), F, "sum"),
            LoopStage("y", "map", ("j",), op("mul", distance, op("rsqrt", variance)), F,
                  stores=(StoreTo("out", at(i=columns, j=1)),)),
        ),
        CppSchedule(**schedule),  # type: ignore[arg-type]
    )  # fmt: skip


def reduction(rows: int, columns: int, combine: str, over: str, **schedule: object) -> Region:
    """Reduce x[rows, columns] over axis ``i`` (rows) or ``j`` (columns), or over both."""
    sizes = {"i": rows, "j": columns}
    inner = ("i", "j") if over == "both" else (over,)
    kept = tuple(Axis(a, n) for a, n in sizes.items() if a not in inner)
    is_arg = combine.startswith("arg")
    stage = LoopStage(
        "value", "reduce", inner, Load("x", at(i=columns, j=1), F), "int64" if is_arg else F, combine,  # type: ignore[arg-type]
        position=at(**dict.fromkeys(inner, 1)) if is_arg else None,
        stores=(StoreTo("out", at(**{a.name: 1 for a in kept})),),
    )  # fmt: skip
    return Region(
        "reduction", kept, tuple(Axis(a, sizes[a]) for a in inner), (stage,), CppSchedule(**schedule)  # type: ignore[arg-type]
    )  # fmt: skip


def scan(rows: int, columns: int, combine: str, axis: str, *, reverse: bool, **schedule: object) -> Region:
    """Running sum or product of x[rows, columns] along one axis."""
    sizes = {"i": rows, "j": columns}
    stage = LoopStage(
        "running", "scan", (axis,), Load("x", at(i=columns, j=1), F), F, combine,  # type: ignore[arg-type]
        scan_axis=axis, reverse=reverse, stores=(StoreTo("out", at(i=columns, j=1)),),
    )  # fmt: skip
    kept = tuple(Axis(a, n) for a, n in sizes.items() if a != axis)
    return Region("scan", kept, (Axis(axis, sizes[axis]),), (stage,), CppSchedule(**schedule))  # type: ignore[arg-type]


def pool(
    images: int, size: int, kernel: int, step: int, padding: int, combine: str, **schedule: object
) -> Region:
    """Square pooling of x[images, size, size]: maximum, or sum of the values inside."""
    out = (size + 2 * padding - kernel) // step + 1
    load = Load(
        "x",
        at(-padding * size - padding, n=size * size, y=step * size, x=step, ky=size, kx=1),
        F,
        (Bound(at(-padding, y=step, ky=1), size), Bound(at(-padding, x=step, kx=1), size)),
        float("-inf") if combine == "max" else 0.0,
    )
    stage = LoopStage("value", "reduce", ("ky", "kx"), load, F, combine,  # type: ignore[arg-type]
                  stores=(StoreTo("out", at(n=out * out, y=out, x=1)),))  # fmt: skip
    return Region(
        "pool",
        (Axis("n", images), Axis("y", out), Axis("x", out)),
        (Axis("ky", kernel), Axis("kx", kernel)),
        (stage,),
        CppSchedule(**schedule),  # type: ignore[arg-type]
    )

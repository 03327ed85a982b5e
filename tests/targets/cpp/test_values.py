"""Printed kernels compute eager's very values where a rounding or a type decides which value that is."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.ir.lowering_checks import Wrap

from kernelwright.core.machine import Machine
from kernelwright.core.plan import ParamValue
from kernelwright.ir.lower import lower
from kernelwright.ir.program import Program, Region
from kernelwright.targets.cpp.candidate import render_cpp_candidate
from kernelwright.targets.cpp.schedules import schedule_edits, with_default_schedules
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.live import task_from_module

SEED = torch.Generator().manual_seed(0)
BYTES = torch.randint(0, 256, (2, 8, 33), dtype=torch.uint8, generator=SEED)
SMALL = torch.randint(-128, 128, (2, 8, 33), dtype=torch.int8, generator=SEED)
WIDE = torch.randint(-(2**62), 2**62, (8, 33), generator=SEED)
TENTHS = torch.round(torch.randn(8, 33, generator=SEED) * 10) / 10
COUNT = torch.arange(1.0, 2001.0).reshape(40, 50)
ROWS = torch.randn(5, 7, 33, generator=SEED)
HALF = ROWS[0].bfloat16()
IMAGE = torch.randn(1, 2, 4, 4, generator=SEED)
ODD = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3e38, -3e38, 1e-40, torch.nan, torch.inf, -torch.inf])


def of_bytes(a: torch.Tensor, b: torch.Tensor) -> Any:
    return (
        (a - b).float() * 2, torch.where((a + b) > 100, a.float(), b.float()), (-a).float() * 0.5,
        (a > -1).float() + 1, (a * 3).float().sum(-1), a.any(-1), a.all(-1),
    )  # fmt: skip


def of_small_integers(a: torch.Tensor, b: torch.Tensor) -> Any:
    return (a * b) > 0, (a + b).float().sum(-1), (-a).float(), (a - b).abs().float()


def of_chosen_integers(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
    return (
        torch.where(x > 0, a, 3).amin(-1), torch.where(x > 0, 1, 2).amax(0), torch.fmod(b, 4).amax(-1),
        torch.where(x > 0, b, 7).max(0)[1], F.pad(b, (1, 1)).amin(0), torch.where(x > 0, b, 5).cummax(-1)[0],
    )  # fmt: skip


def of_wide_integers(a: torch.Tensor) -> Any:
    return (a + a) > a, (a * 3) // 7, a // -3, a % -7, a.clamp(-5, 9), torch.div(a, 4, rounding_mode="floor")


def of_bools(a: torch.Tensor) -> Any:
    return a.amax(-1), a.amin(-1), a.min(-1)[1], a.max(0)[1], (a + a).float() * 3, (a * a).long() + 1


def of_cancelling(a: torch.Tensor, b: torch.Tensor) -> Any:
    c = a * a - b * b
    return (
        c.sqrt(), c.rsqrt(), c.log(), (c + 1).acos(), (-(a * b) + b * a).sqrt(), (a**4 - b**4).sqrt(),
        torch.where(c >= 0, 1.0, 2.0), c.sum(-1).sqrt(), torch.sign(c), 1 / c,
    )  # fmt: skip


def beside_a_scan(x: torch.Tensor) -> Any:
    c = x.cumsum(-1)
    curve = (c * c + c).tanh() * (c * c + c) + (c * 0.3).exp().sin() + (c * 0.1).cos()
    return (
        x.sum(-1) + c.amax(-1), c - c.amax(-1, keepdim=True), curve, curve.mean(-1), (c > 0).any(-1),
        x.flip(-1).cumsum(-1).flip(-1) / x.abs().sum(-1, keepdim=True), c.softmax(-1).cumsum(-1),
    )  # fmt: skip


CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "uint8": (of_bytes, tuple(BYTES)),
    "int8": (of_small_integers, tuple(SMALL)),
    "int64": (of_wide_integers, (WIDE,)),
    "integers or a number": (of_chosen_integers, (TENTHS, WIDE, SMALL[0])),
    "bool": (of_bools, (TENTHS > 0,)),
    "floor division": (
        lambda a, b: (a // 0.1, torch.floor_divide(a, 0.3), a // b, torch.div(a, b, rounding_mode="floor")),
        (TENTHS, TENTHS.flip(0)),
    ),
    "steps after a division": (
        lambda x: ((x / 41).floor(), (x / x.amax(-1, keepdim=True)) == 1, (x / 49 + 0.5).long()),
        (COUNT,),
    ),
    "integers over integers": (lambda x: (x / 41).floor().long(), (COUNT.long(),)),
    "scans of both directions": (
        lambda x: (x.cumsum(-1), x.flip(-1).cumsum(-1).flip(-1), x.flip(1).cumsum(1).flip(1) + x.cumsum(1)),
        (ROWS,),
    ),
    "upsampling": (
        lambda x: (F.interpolate(x, scale_factor=3.2) * 2, F.interpolate(x, scale_factor=3.0) + 1),
        (IMAGE,),
    ),
    "differences of equal products": (of_cancelling, (TENTHS, TENTHS.clone())),
    "scans beside reductions, along lanes": (beside_a_scan, (ROWS,)),
    "scans beside reductions, in columns": (lambda x: beside_a_scan(x.mT), (ROWS,)),
    "powers of odd values": (lambda x: (x**0.75, x**0.5, x**-0.5, x**4, x**-2, x**1.5, x**3), (ODD,)),
    "the one piece of a list": (
        lambda x, h: (x + 1, h.split(33, 1)[0], h[:1].unbind(0)[0]),
        (ROWS[0], HALF),
    ),
    "places of padded maxima": (
        lambda x: F.max_pool2d(torch.where(x > 9, x, -torch.inf), 3, 2, 1, return_indices=True),
        (IMAGE,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_kernels_have_the_values_of_eager(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    function, inputs = CASES[name]
    compare(function, inputs, tmp_path, lambda program: program)


@pytest.mark.parametrize("jam", [2, 4])
def test_points_that_share_a_pass_read_their_own_kept_values(
    jam: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    jammed = everywhere("jam", "jam", jam)
    compare(lambda x: x.sin().min(1)[1], (ROWS,), tmp_path, jammed)
    compare(lambda x: x.sin().softmax(1), (ROWS,), tmp_path, jammed)


def test_scans_in_columns_are_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    streamed = everywhere("streaming-stores", "stream", value=True)
    compare(lambda x: (x.softmax(1).cumsum(1), x.sum(1)), (ROWS,), tmp_path, streamed)


def everywhere(edit: str, field: str, value: ParamValue) -> Callable[[Program], Program]:
    """Return what sets a field of every region's schedule."""

    def edited(program: Program) -> Program:
        for region in [step.name for step in program.steps if isinstance(step, Region)]:
            program = schedule_edits(Machine(cores=2))[edit].apply(program, region, {field: value})
        return program

    return edited


def compare(
    function: Callable[..., Any],
    inputs: tuple[torch.Tensor, ...],
    tmp_path: Path,
    edit: Callable[[Program], Program],
) -> None:
    """Require the values of eager of a kernel whose schedule an edit has changed."""
    task = task_from_module(Wrap(function), inputs, name="values", folder=tmp_path)
    captured = capture_task(task, task.workloads[0])
    program = edit(with_default_schedules(lower(captured), Machine(cores=2)))
    module = types.ModuleType("candidate")
    exec(render_cpp_candidate(task, {task.workloads[0].name: (captured, program)}, ""), module.__dict__)
    assert "CPP_SOURCE" in vars(module)
    found, wanted = module.ModelNew()(*inputs), function(*inputs)
    found, wanted = (v if isinstance(v, tuple) else (v,) for v in (found, wanted))
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5, equal_nan=True)

"""Generated products, convolutions and recurrent layers beside torch's: one process, in turn.

Each case is a module whose product or layer a plan takes from the library, with this machine's schedule;
``--points`` tries so many further points of its schedules, drawn by lot, and shows the fastest. A round times
torch and own code right after each other; the figure is the median of the rounds' ratios, above 1 where own
code is faster, with the second smallest and second largest. Nothing here is a verdict.

Usage: python -m lab.benchmarks.products [--only NAME,…] [--rounds 9] [--sample-ms 20] [--points 0]
"""

import argparse
import random
import statistics
import sys
import time
import types
from collections.abc import Callable
from functools import partial

import torch

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import Machine
from kernelwright.core.plan import ParamValue
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Task, Workload
from kernelwright.ir.fusion_edits import own_products, own_recurrences
from kernelwright.ir.plan_lowering import write_source
from kernelwright.ir.space import PlannedPoint, Point, Space
from kernelwright.machine.probe import probe_machine
from kernelwright.targets.cpp.candidate import render_cpp_candidate
from kernelwright.targets.registry import target_of
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace

Shapes = tuple[tuple[int, ...], ...]
CASES: dict[str, tuple[str, str, Shapes]] = {
    "square": ("None", "x0 @ x1", ((1024, 1024), (1024, 1024))),
    "linear": ("nn.Linear(1024, 1024)", "F.gelu(self.layer(x0))", ((512, 1024),)),
    "skinny": ("nn.Linear(2048, 2048)", "self.layer(x0)", ((8, 2048),)),
    "tall": ("None", "x0 @ x1", ((8192, 64), (64, 32))),
    "small": ("None", "x0 @ x1", ((64, 64), (64, 64))),
    "batched": ("None", "x0 @ x1", ((64, 64, 64), (64, 64, 64))),
    "depthwise": ("nn.Conv2d(64, 64, 3, padding=1, groups=64)", "self.layer(x0)", ((4, 64, 56, 56),)),
    "grouped": ("nn.Conv2d(64, 64, 3, padding=1, groups=8)", "self.layer(x0)", ((4, 64, 56, 56),)),
    "conv3x3": ("nn.Conv2d(64, 64, 3, padding=1)", "self.layer(x0)", ((4, 64, 56, 56),)),
    "conv3x3-16": ("nn.Conv2d(16, 16, 3, padding=1)", "self.layer(x0)", ((8, 16, 64, 64),)),
    "conv3x3-128": ("nn.Conv2d(128, 128, 3, padding=1)", "self.layer(x0)", ((4, 128, 28, 28),)),
    "conv3x3-256": ("nn.Conv2d(256, 256, 3, padding=1)", "self.layer(x0)", ((4, 256, 14, 14),)),
    "conv3x3-relu": ("nn.Conv2d(32, 64, 3, padding=1)", "self.layer(x0).relu()", ((8, 32, 64, 64),)),
    "strided-7x7": ("nn.Conv2d(3, 64, 7, stride=2, padding=3)", "self.layer(x0)", ((2, 3, 224, 224),)),
    "strided-3": (
        "nn.Conv2d(3, 32, 3, stride=2, padding=1, bias=False)",
        "self.layer(x0)",
        ((1, 3, 224, 224),),
    ),
    "strided-128": ("nn.Conv2d(128, 256, 3, stride=2, padding=1)", "self.layer(x0)", ((2, 128, 28, 28),)),
    "strided-64": ("nn.Conv2d(64, 128, 3, stride=2, padding=1)", "self.layer(x0)", ((2, 64, 56, 56),)),
    "strided-256": ("nn.Conv2d(256, 512, 3, stride=2, padding=1)", "self.layer(x0)", ((2, 256, 14, 14),)),
    "narrow-512": ("nn.Conv2d(512, 512, 3, padding=1)", "self.layer(x0)", ((2, 512, 7, 7),)),
    "depthwise-strided": (
        "nn.Conv2d(96, 96, 3, stride=2, padding=1, groups=96)",
        "self.layer(x0)",
        ((1, 96, 112, 112),),
    ),
    "conv1d": ("nn.Conv1d(64, 64, 5, padding=2)", "self.layer(x0)", ((8, 64, 1000),)),
    "lstm": ("nn.LSTM(256, 256)", "self.layer(x0)[0]", ((256, 2, 256),)),
    "lstm-16": ("nn.LSTM(256, 256)", "self.layer(x0)[0]", ((256, 16, 256),)),
    "lstm-64": ("nn.LSTM(64, 64)", "self.layer(x0)[0]", ((256, 1, 64),)),
    "lstm-512": ("nn.LSTM(512, 512)", "self.layer(x0)[0]", ((64, 8, 512),)),
    "gru": ("nn.GRU(256, 256)", "self.layer(x0)[0]", ((256, 2, 256),)),
    "gru-16": ("nn.GRU(256, 256)", "self.layer(x0)[0]", ((256, 16, 256),)),
    "rnn": ("nn.RNN(256, 256)", "self.layer(x0)[0]", ((256, 2, 256),)),
    "upsampling": ("nn.ConvTranspose2d(64, 32, 2, stride=2)", "self.layer(x0)", ((4, 64, 28, 28),)),
}
SOURCE = """
import torch
from torch import nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {layer}

    def forward(self, {names}):
        return {body}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
Call = Callable[[], object]


def main() -> None:
    """Measure and print."""
    options = _options()
    torch.set_num_threads(options.threads or torch.get_num_threads())
    machine = probe_machine()
    for name in options.only or CASES:
        eager, owns = _case(name, machine, options.points)
        best = max((_ratios(eager, own, options), str(point)) for point, own in owns)
        (middle, low, high), point = best
        sys.stdout.write(f"{name:11s} {middle:5.2f} [{low:.2f}, {high:.2f}]  {point}\n")
        sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"of {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sample-ms", type=float, default=20.0)
    parser.add_argument("--points", type=int, default=0, help="further points of the schedules, by lot")
    parser.add_argument("--threads", type=int, help="for torch and own code; default: torch's own")
    options = parser.parse_args()
    unknown = sorted(set(options.only or ()) - set(CASES))
    if unknown:
        parser.error(f"--only {unknown[0]}: cases are {', '.join(CASES)}")
    if options.rounds < 3:
        parser.error("--rounds: at least 3, for an interval")
    return options


def _case(name: str, machine: Machine, points: int) -> tuple[Call, list[tuple[Point, Call]]]:
    """Return a call of torch, and calls of own code at some points."""
    layer, body, shapes = CASES[name]
    names = ", ".join(f"x{i}" for i in range(len(shapes)))
    inputs = ", ".join(f"torch.randn{shape}" for shape in shapes)
    task = Task(name=name, source=SOURCE.format(layer=layer, names=names, body=body, inputs=inputs))
    namespace = load_namespace(task, Workload())
    values, reference = draw_inputs(task, namespace, seed=1), construct_model(task, namespace, seed=0)
    owns: list[tuple[Point, Call]] = []
    for planned in _points(task, machine, points):
        module = _module(task, planned)
        module.load_state_dict(reference.state_dict())
        torch.testing.assert_close(module(*values), reference(*values), rtol=1e-3, atol=1e-4)
        owns.append((planned.point, partial(module, *values)))
    return partial(reference, *values), owns


def _points(task: Task, machine: Machine, count: int) -> list[PlannedPoint]:
    """Return the point that takes every product with default schedules, and others around it."""
    captured = capture_task(task, Workload())
    space = Space(captured, target_of(CPU_CPP).lowering, machine)
    nodes = (*own_products(captured), *own_recurrences(captured))
    owned: dict[str, ParamValue] = {f"own.{node.name}": "generated" for node in nodes}
    found = [space.plan(Point.of(owned))]
    rng = random.Random(0)
    fields = [d for d in found[0].decisions if d.region.startswith("r_") and len(d.legal) > 1]
    for _ in range(count):
        drawn = {d.name: rng.choice(d.legal) for d in rng.sample(fields, min(3, len(fields)))}
        found.append(space.plan(Point.of(owned | drawn)))
    if found[0].lowered is None:
        raise LoweringError(f"{task.name}: {found[0].illegal}")
    return [planned for planned in found if planned.lowered is not None]


def _module(task: Task, planned: PlannedPoint) -> torch.nn.Module:
    assert planned.lowered is not None
    source = write_source(task, {"default": planned.lowered}, planned.plan, render_cpp_candidate)
    module = types.ModuleType("own_product")
    exec(compile(source, "own_product.py", "exec"), module.__dict__)
    made: torch.nn.Module = module.ModelNew()
    return made


@torch.no_grad()
def _ratios(one: Call, other: Call, options: argparse.Namespace) -> tuple[float, float, float]:
    """Return the median of the ratios of their times, the second smallest and the second largest."""
    for call in (one, other, one, other):
        call()
    calls = max(1, int(options.sample_ms / 1000 / max(_seconds(one, 1), 1e-7)))
    ratios = sorted(_seconds(one, calls) / _seconds(other, calls) for _ in range(options.rounds))
    return statistics.median(ratios), ratios[1], ratios[-2]


def _seconds(call: Call, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()

"""A stand-in for the referee that verifies every kernel, and for the clock of a profile."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from torch import nn

from kernelwright.api import models_apart, playing, starting
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Speedup
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.referee.version import REFEREE_VERSION
from kernelwright.remote.fleet.records import WorkerOrder
from kernelwright.remote.fleet.worker import WorkerSetup
from kernelwright.testing.fake_run import PEAKS, fake_evaluation
from kernelwright.whole import profiling


class Generous:
    """A stand-in: ``speedup`` times as fast as eager, and ``over_compile`` times as torch.compile.

    ``over_compile_alone`` and ``speedup_alone`` are for a model that is compiled and has no kernel.
    """

    speedup = speedup_alone = 2.0
    as_one: tuple[str, float] | None = None
    """A whole model's name, and how fast it is as one program."""

    def __init__(self, over_compile: float = 1.5) -> None:
        self.over_compile = self.over_compile_alone = over_compile
        self.here = Speedup(baseline="eager", ratio=1.8, low=1.7, high=1.9)
        self.judged: list[str] = []
        self.task: Task | None = None
        self.baseline_ms: Mapping[str, float] = {"default": 10.0}

    def open(self, task: Task) -> Self:
        self.task = task
        return self

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        assert self.task is not None
        self.judged.append(self.task.name)
        is_alone = "torch.compile(" in candidate.source and "CPP_SOURCE" not in candidate.source
        speedup = self.speedup_alone if is_alone else self.speedup
        if self.as_one is not None and self.task.name == self.as_one[0] and candidate.plan.moves:
            speedup = self.as_one[1]
        made = fake_evaluation(candidate, self.task, speedup, final=final)
        ratio = self.over_compile_alone if is_alone else self.over_compile
        over = Speedup(baseline="torch_compile", ratio=ratio, low=0.98 * ratio, high=1.02 * ratio)
        (result,) = made.results
        compared = result.model_copy(update={"speedups": (*result.speedups, over)})
        return made.model_copy(update={"results": (compared,), "referee": REFEREE_VERSION})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None: ...


def times_by_size(model: nn.Module, calls: object, names: dict[int, str]) -> profiling.Times:
    """Stub: a submodule takes a millisecond for each module in it."""
    return float(len(list(model.modules()))), {
        path: float(len(list(model.get_submodule(path).modules()))) for path in names.values()
    }


def bring(order: WorkerOrder) -> WorkerSetup:
    """Have a stand-in judge on a worker; live modules go into the folder that the order names."""
    made = Generous()
    return WorkerSetup(
        start=lambda: made, machine=Machine(cores=2, peaks=PEAKS), modules=Path(order.argument)
    )


def stand_in(put: Callable[[object, str, object], None]) -> Generous:
    """Have nothing measured: ``put`` sets an attribute, as ``monkeypatch.setattr`` does."""
    made = Generous()
    put(playing, "open_referee", lambda *args, **named: made)
    put(starting, "machine_for", lambda *args: Machine(cores=2, peaks=PEAKS))
    put(profiling, "_time", times_by_size)
    put(models_apart, "timed_in_turn", lambda *args: made.here)
    return made

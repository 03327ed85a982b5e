"""Which machine a run is for."""

from pathlib import Path

import pytest

from kernelwright.core.machine import Accelerator, Machine
from kernelwright.core.run import RunSpec
from kernelwright.core.target import CPU_CPP, TargetName
from kernelwright.core.task import Task
from kernelwright.machine import probe
from kernelwright.runs.evaluator import Session
from kernelwright.runs.machine import machine_of_run
from kernelwright.runs.prepare import machine_to_plan_for
from kernelwright.targets.gpu import peaks as gpu_peaks
from kernelwright.testing.fake_run import PEAKS

CUDA = TargetName(device="cuda", language="triton")
THERE = Machine(processor="Another CPU", cores=64, sandbox="seccomp")


class There:
    """An evaluator on another machine; a stub that judges nothing."""

    def __init__(self, machine: Machine | None) -> None:
        self._machine = machine

    def machine(self) -> Machine | None:
        return self._machine

    def open(self, task: Task) -> Session:
        raise AssertionError("nothing is judged here")


@pytest.fixture(autouse=True)
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up peaks, and no GPU."""
    monkeypatch.setattr(probe, "measure_peaks", lambda cache_dir: PEAKS)
    monkeypatch.setattr(gpu_peaks, "has_gpu", lambda kind: False)


def test_with_the_referee_here_it_is_this_one(tmp_path: Path) -> None:
    machine = machine_of_run(CPU_CPP, tmp_path, sandbox="namespaces")
    assert machine == probe.probe_machine(tmp_path).model_copy(update={"sandbox": "namespaces"})
    assert machine.peaks == PEAKS and machine.cores and not machine.is_elsewhere
    assert machine_of_run(CUDA, tmp_path).accelerator == Accelerator(kind="cuda")


def test_with_an_evaluator_elsewhere_it_is_that_one(tmp_path: Path) -> None:
    machine = machine_of_run(CPU_CPP, tmp_path, There(THERE), sandbox="namespaces")
    assert machine == THERE.model_copy(update={"is_elsewhere": True})


def test_a_gpu_elsewhere_counts_only_for_its_kind(tmp_path: Path) -> None:
    gpu = Accelerator(kind="cuda", name="h200-sxm")
    there = There(THERE.model_copy(update={"accelerator": gpu}))
    assert machine_of_run(CUDA, tmp_path, there).accelerator == gpu
    assert machine_of_run(CPU_CPP, tmp_path, there).accelerator is None
    hip = TargetName(device="hip", language="triton")
    assert machine_of_run(hip, tmp_path, there).accelerator == Accelerator(kind="hip")


def test_an_evaluator_that_does_not_tell_is_taken_to_be_like_this_one_but_its_gpu_is_unknown(
    tmp_path: Path,
) -> None:
    machine = machine_of_run(CPU_CPP, tmp_path, There(None))
    assert machine.is_assumed and machine.is_elsewhere and machine.cores == probe.probe_machine().cores
    assert machine.environment()["machine_assumed"] is True
    assert machine_of_run(CUDA, tmp_path, There(None)).accelerator == Accelerator(kind="cuda")


def test_peaks_that_nobody_knows_are_those_of_here_and_an_older_record_is_completed(tmp_path: Path) -> None:
    task = Task(name="t", source="s")
    there = Machine(cores=64, is_elsewhere=True)
    planned = machine_to_plan_for(RunSpec(task=task, recipe="r", machine=there), tmp_path)
    assert planned == there.model_copy(update={"peaks": PEAKS})
    older = machine_to_plan_for(RunSpec(task=task, recipe="r", environment={"cores": 3}), tmp_path)
    assert older == probe.probe_machine(tmp_path).model_copy(update={"cores": 3})
    kept = Machine(cores=5, peaks=PEAKS)
    assert machine_to_plan_for(RunSpec(task=task, recipe="r", machine=kept), tmp_path) == kept

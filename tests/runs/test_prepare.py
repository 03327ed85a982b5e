"""What a run is prepared with."""

from pathlib import Path

import pytest

from kernelwright.agents.problem import with_corrected_floors
from kernelwright.core.candidate import Candidate
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import PROBE_VERSION
from kernelwright.core.run import RunSpec
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task, TolerancePolicy
from kernelwright.runs.prepare import floors_on, gpu_of, machine_to_plan_for, prepare_on
from kernelwright.targets.gpu import driver_files as gpu_here
from kernelwright.targets.gpu import peaks as gpu_peaks
from kernelwright.targets.gpu.driver_files import GpuHere
from kernelwright.targets.gpu.facts import GPUS, MeasuredPeaks, PeakFlops, with_measured
from kernelwright.testing.fake_run import PEAKS, fake_evaluation

MACHINE = Machine(cores=2, peaks=PEAKS)
SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1
def get_inputs():
    return [torch.rand(8, 8)]
def get_init_inputs():
    return []
"""


def spec_of(target: str, **environment: str) -> RunSpec:
    task = Task(name="small", source=SOURCE)
    aim = TargetName.parse(target)
    return RunSpec(task=task, recipe="kernelwright", target=aim, environment=dict(environment))


def test_on_the_processor_peaks_facts_and_floors_are_its_own() -> None:
    problem, reason = prepare_on(spec_of("cpu/cpp"), MACHINE, GPUS["h200-sxm"])
    assert reason is None and set(problem.captured) == set(problem.floors) == {"default"}
    assert problem.peaks == PEAKS and problem.machine == MACHINE


def test_a_gpu_brings_its_own_and_nothing_of_the_processor_is_left() -> None:
    problem, _ = prepare_on(spec_of("cuda/triton"), MACHINE, GPUS["h200-sxm"])
    assert problem.peaks.device == "NVIDIA H200 SXM" and problem.peaks.source == "published"
    facts = problem.machine.facts()
    assert facts["machine.bandwidth_gbps"] == 4800 and "machine.n_threads" not in facts
    assert facts["gpu.architecture"] == "sm_90" and facts["gpu.units"] == 132
    assert 0 < problem.floors["default"].ms < 1e-4


def test_of_an_unknown_gpu_nothing_is_said() -> None:
    problem, _ = prepare_on(spec_of("cuda/triton"), MACHINE)
    assert (problem.floors, problem.machine.facts()) == ({}, {}) and set(problem.captured) == {"default"}


def test_the_gpu_is_the_one_that_the_record_names_else_the_one_that_is_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu_peaks, "has_gpu", lambda kind: False)
    assert gpu_of(spec_of("cuda/triton"), tmp_path) is None
    named = spec_of("cuda/triton", gpu="NVIDIA H200")
    assert gpu_of(named, tmp_path) == GPUS["h200-sxm"]
    assert gpu_of(spec_of("cuda/triton", gpu="a toaster"), tmp_path) is None
    monkeypatch.setattr(gpu_peaks, "has_gpu", lambda kind: True)
    monkeypatch.setattr(gpu_peaks, "gpu_here", lambda kind, cache: GPUS["b200-sxm"])
    assert gpu_of(named, tmp_path) == GPUS["h200-sxm"]
    assert gpu_of(spec_of("cuda/triton"), tmp_path) == GPUS["b200-sxm"]
    assert gpu_of(spec_of("cpu/cpp"), tmp_path) is None


HALF = SOURCE.replace("torch.relu(x) + 1", "torch.mm(x.half(), x.half()).float()").replace(
    "8, 8", "4096, 4096"
)
WHOLE = HALF.replace("x.half()", "x").replace(".float()", "")


@pytest.mark.parametrize(
    ("source", "tolerance", "peak"),
    [
        (WHOLE, TolerancePolicy.STRICT, "tf32"),
        (WHOLE, TolerancePolicy.TF32, "fp16"),
        (HALF, TolerancePolicy.STRICT, "fp16"),
    ],
)
def test_floors_of_products_take_the_matrix_units_for_granted(
    source: str, tolerance: TolerancePolicy, peak: str
) -> None:
    task = Task(name="product", source=source, tolerance=tolerance)
    spec = spec_of("cuda/triton").model_copy(update={"task": task})
    floor = prepare_on(spec, MACHINE, GPUS["h200-sxm"])[0].floors["default"]
    assert floor.bound_by == "compute"
    assert floor.ms == pytest.approx(floor.work.flops / getattr(GPUS["h200-sxm"].flops, peak) * 1e3)


def test_floors_keep_to_published_peaks_where_less_was_measured() -> None:
    slow = MeasuredPeaks(memory_bandwidth=3e12, flops=PeakFlops(tf32=1e14), source="measured 2026-11-21")
    gpu = with_measured(GPUS["h200-sxm"], slow)
    spec = spec_of("cuda/triton").model_copy(update={"task": Task(name="product", source=WHOLE)})
    problem, _ = prepare_on(spec, MACHINE, gpu)
    published, _ = prepare_on(spec, MACHINE, GPUS["h200-sxm"])
    assert problem.floors == published.floors
    assert problem.peaks.bandwidth_gbps == 3000 and problem.peaks.fma_gflops == 1e5
    assert problem.peaks.source == "measured 2026-11-21"


def test_floors_on_a_gpu_are_those_of_a_run_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu_peaks, "has_gpu", lambda kind: True)  # a stub: there is none here
    monkeypatch.setattr(gpu_peaks, "gpu_here", lambda kind, cache: GPUS["h200-sxm"])
    monkeypatch.setattr(gpu_here, "find_gpus", lambda: (GpuHere("NVIDIA H200"), GpuHere("NVIDIA H200")))
    task = Task(name="product", source=WHOLE)
    problem, _ = prepare_on(
        spec_of("cuda/triton").model_copy(update={"task": task}), MACHINE, GPUS["h200-sxm"]
    )
    assert (
        floors_on(task, "cuda", tmp_path)
        == floors_on(task, "cuda", tmp_path, index=1)
        == problem.floors
        != {}
    )


def test_there_are_no_floors_on_a_device_that_is_not_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task = spec_of("cuda/triton").task
    monkeypatch.setattr(gpu_peaks, "has_gpu", lambda kind: False)
    assert floors_on(task, "cuda", tmp_path) == floors_on(task, "copied", tmp_path) == {}
    monkeypatch.setattr(gpu_peaks, "has_gpu", lambda kind: True)
    monkeypatch.setattr(gpu_peaks, "gpu_here", lambda kind, cache: GPUS["h200-sxm"])
    monkeypatch.setattr(gpu_here, "find_gpus", lambda: (GpuHere("NVIDIA H200"), GpuHere("NVIDIA L40S")))
    assert floors_on(task, "cuda", tmp_path, index=1) == {}


@pytest.mark.parametrize(
    ("source", "probe", "is_kept"),
    [("measured 2026-11-20", 0, False), ("measured 2026-11-20", PROBE_VERSION, True), ("made up", 0, True)],
)
def test_peaks_of_an_older_probe_are_measured_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, probe: int, is_kept: bool
) -> None:
    recorded = PEAKS.model_copy(update={"source": source, "probe": probe, "fma_gflops": 560.0})
    monkeypatch.setattr("kernelwright.machine.probe.measure_peaks", lambda cache_dir: PEAKS)
    spec = spec_of("cpu/cpp").model_copy(update={"machine": Machine(cores=2, peaks=recorded)})
    assert (machine_to_plan_for(spec, tmp_path).peaks == recorded) is is_kept


@pytest.mark.parametrize(("tolerance", "may_round"), [("strict", False), ("bf16", True)])
def test_products_may_be_rounded_where_the_tolerance_allows_it(tolerance: str, may_round: bool) -> None:
    spec = spec_of("cpu/cpp")
    spec = spec.model_copy(
        update={"task": spec.task.model_copy(update={"tolerance": TolerancePolicy(tolerance)})}
    )
    problem, _ = prepare_on(spec, MACHINE)
    assert problem.floors["default"].work.may_round is may_round


def test_a_floor_that_a_candidate_showed_to_be_too_high_is_replaced() -> None:
    problem, _ = prepare_on(spec_of("cpu/cpp"), MACHINE)
    given = problem.floors["default"]
    evaluation = fake_evaluation(Candidate(source="x"), problem.task, 2.0)
    assert with_corrected_floors(problem, evaluation) is problem
    (result,) = evaluation.results
    corrected = result.model_copy(update={"floor_ms": given.ms / 2, "floor_was_ms": given.ms})
    found = with_corrected_floors(problem, evaluation.model_copy(update={"results": (corrected,)}))
    assert found.floors["default"].ms == found.floors["default"].least_ms == given.ms / 2
    assert found.floors["default"].work == given.work

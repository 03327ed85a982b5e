"""What an inspection means for a candidate that is about to be paid for."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelwright.core.evidence import FactValue
from kernelwright.machine.compiler import run_here
from kernelwright.targets.cuda.nvcc.find import Absent, find_cuda_compiler
from kernelwright.targets.gpu.facts import GPUS
from kernelwright.targets.gpu.inspect.ahead import Ways, ahead_of, look_ahead
from kernelwright.targets.gpu.inspect.inspection import (
    Inspection,
    InspectionStatus,
    KernelForm,
    KernelOutcome,
    KernelReport,
)

FACTS: dict[str, FactValue] = {"aot.registers": 40}
GOOD = KernelReport(kernel="good", outcome=KernelOutcome.SPILLS, launches=1, facts=FACTS)
BAD = KernelReport(kernel="bad", outcome=KernelOutcome.CANNOT_LAUNCH, detail="too much", launches=1)
TRIAL = BAD.model_copy(update={"is_trial": True})


def found(status: InspectionStatus, *kernels: KernelReport) -> Inspection:
    return Inspection(
        architecture="sm_90",
        device="h100-sxm",
        status=status,
        detail="why",
        kernels=kernels,
        sandbox="landlock",
    )


@pytest.mark.parametrize(
    ("inspection", "problem", "note"),
    [
        (found(InspectionStatus.INSPECTED, GOOD, TRIAL), "", "1 kernel can be launched, 1 with spilled"),
        (
            found(InspectionStatus.INSPECTED, GOOD, BAD),
            "bad: cannot launch: too much",
            "1 of 2 kernels cannot run",
        ),
        (found(InspectionStatus.NOT_RUN, BAD), "bad: cannot launch: too much", "1 of 1 kernels cannot run"),
        (found(InspectionStatus.TIMEOUT, BAD), "bad: cannot launch: too much", "1 of 1 kernels cannot run"),
        (found(InspectionStatus.NOT_BUILT), "not built for sm_90, h100-sxm: why", "not wholly built"),
        (found(InspectionStatus.NOT_RUN, GOOD), "", "not run: why, after 1 kernels"),
        (found(InspectionStatus.NO_KERNELS), "", "no kernels: why"),
        (found(InspectionStatus.NEEDS_HEADERS), "", "needs headers: why"),
        (found(InspectionStatus.CRASHED), "", "crashed: why"),
    ],
)
def test_only_what_compilers_and_limits_say_ends_a_candidate(
    inspection: Inspection, problem: str, note: str
) -> None:
    seen = ahead_of(inspection)
    assert seen.problem.startswith(problem) and bool(seen.problem) == bool(problem)
    assert note in seen.note and seen.sandbox == "landlock"
    assert seen.is_late == (inspection.status is InspectionStatus.TIMEOUT)
    assert (seen.by_kernel == {"good": FACTS}) == (GOOD in inspection.kernels)


@pytest.mark.parametrize(
    ("form", "status", "is_refused"),
    [
        (KernelForm.CUDA, InspectionStatus.NOT_BUILT, True),
        (KernelForm.CUDA, InspectionStatus.TIMEOUT, True),
        (KernelForm.HIP, InspectionStatus.TIMEOUT, True),
        (KernelForm.TRITON, InspectionStatus.TIMEOUT, False),
        (KernelForm.LOAD_INLINE, InspectionStatus.NOT_BUILT, False),
        (KernelForm.LOAD_INLINE, InspectionStatus.TIMEOUT, False),
    ],
)
def test_a_compiler_ends_what_it_had_the_whole_source_of(
    form: KernelForm, status: InspectionStatus, is_refused: bool
) -> None:
    seen = ahead_of(found(status).model_copy(update={"form": form}))
    assert bool(seen.problem) == is_refused and "why" in (seen.problem or seen.note)
    assert seen.is_late == (is_refused and status is InspectionStatus.TIMEOUT)


@pytest.mark.skipif(isinstance(find_cuda_compiler(), Absent), reason="needs nvcc or NVRTC")
def test_load_inline_that_is_not_built_here_is_the_devices_to_judge(tmp_path: Path) -> None:
    source = "module = load_inline('m', '', '__global__ void k(Tensor4 x) {}')"
    compiling = SimpleNamespace(run=run_here, sandbox="none")
    ways = Ways(tmp_path, compiling=lambda: nullcontext(compiling))
    seen = look_ahead(source, GPUS["h100-sxm"], task_source="", is_training=False, ways=ways)
    assert (seen.problem, seen.is_late) == ("", False) and "not wholly built ahead" in seen.note


def test_a_launch_with_a_name_of_its_own_is_found_by_its_function() -> None:
    launch = GOOD.model_copy(update={"kernel": "wide", "function": "scale"})
    assert ahead_of(found(InspectionStatus.INSPECTED, launch)).by_kernel == {"scale": FACTS}


def test_where_no_compiler_is_the_device_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    gpu, ways = GPUS["h100-sxm"], Ways(tmp_path)
    seen = look_ahead("import triton\nclass ModelNew: ...", gpu, task_source="", is_training=True, ways=ways)
    assert (seen.problem, seen.facts) == ("", {}) and "not installed" in seen.note
    seen = look_ahead("class ModelNew: ...", gpu, task_source="", is_training=True, ways=ways)
    assert (seen.problem, seen.facts) == ("", {}) and "does not speak of Triton" in seen.note
    cuda = 'CUDA_SOURCE = ""\nLAUNCHES = ()\nclass ModelNew: ...'
    seen = look_ahead(cuda, gpu, task_source="", is_training=True, ways=ways)
    assert (seen.problem, seen.facts) == ("", {}) and "are not looked at here" in seen.note

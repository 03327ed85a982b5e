"""Targets: those that run, those that are printed, those that are only inspected."""

import pytest

from kernelwright.core.errors import UserError
from kernelwright.core.target import (
    GPU_TARGETS,
    INSPECTED_TARGETS,
    KNOWN_TARGETS,
    PRINTED_TARGETS,
    Target,
)
from kernelwright.targets.gpu.inspect.inspection import Inspection, InspectionStatus, KernelForm


@pytest.mark.parametrize("text", INSPECTED_TARGETS)
@pytest.mark.parametrize("to_run", [True, False])
def test_what_is_only_inspected_can_neither_be_written_nor_run(text: str, to_run: bool) -> None:
    with pytest.raises(UserError, match="kernelwright inspect") as raised:
        TargetName.parse(text, to_run=to_run)
    assert "cpu/cpp" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("text", GPU_TARGETS)
def test_what_needs_a_gpu_runs_where_that_kind_is(text: str) -> None:
    kind = text.partition("/")[0]
    assert str(TargetName.parse(text, has_device=lambda asked: asked == kind)) == text
    with pytest.raises(UserError, match="needs a GPU"):
        TargetName.parse(text, has_device=lambda asked: asked != kind)
    if text in PRINTED_TARGETS:
        assert str(TargetName.parse(text, to_run=False)) == text


@pytest.mark.parametrize(("form", "architecture"), [(f, a) for f in KernelForm for a in ("sm_90a", "gfx942")])
def test_whatever_is_inspected_is_a_known_target(form: KernelForm, architecture: str) -> None:
    if (form is KernelForm.HIP) == architecture.startswith("sm_") and form is not KernelForm.TRITON:
        pytest.skip("not compiled for that vendor")
    found = Inspection(architecture=architecture, device="d", form=form, status=InspectionStatus.NOT_BUILT)
    assert str(found.target) in {*GPU_TARGETS, *INSPECTED_TARGETS, *KNOWN_TARGETS}

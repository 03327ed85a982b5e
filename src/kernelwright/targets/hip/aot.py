"""HIP C++ in candidates, as it is compiled ahead of time."""

from kernelwright.targets.cuda.nvcc.find import Absent
from kernelwright.targets.gpu.inspect.form import AotForm
from kernelwright.targets.gpu.inspect.inspection import KernelForm
from kernelwright.targets.hip.hipcc.find import find_hip_compiler
from kernelwright.targets.hip.hipcc.report import read_hip_source, report_hip_candidate


def _missing() -> str | None:
    found = find_hip_compiler()
    return found.reason if isinstance(found, Absent) else None


HIP_FORM = AotForm(
    name=KernelForm.HIP,
    title="HIP C++",
    vendor="amd",
    vendor_title="AMD",
    example="gfx942",
    is_in=lambda source: read_hip_source(source) is not None,
    report=report_hip_candidate,
    find_missing=_missing,
    suffixes=(".hip",),
)

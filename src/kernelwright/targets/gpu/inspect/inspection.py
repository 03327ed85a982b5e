"""What is known of a candidate's kernels before anybody pays for a GPU."""

import math
from enum import StrEnum

from pydantic import Field

from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.core.target import TargetName
from kernelwright.targets.registry import all_targets


class KernelForm(StrEnum):
    """The forms in which candidates hold GPU kernels, of the targets that are ours."""

    TRITON = "triton"
    CUDA = "cuda"
    """CUDA C++ in literals of the module, with its launches (docs/cuda.md)."""
    LOAD_INLINE = "load_inline"
    """CUDA C++ that torch's ``load_inline`` would compile."""
    HIP = "hip"
    """HIP C++ in literals of the module, with its launches."""


class KernelOutcome(StrEnum):
    """What the compiler and the limits of the architecture say of one kernel."""

    FITS = "fits"
    """It is built, can be launched, and keeps everything in registers."""
    SPILLS = "spills"
    """It can be launched; the compiler has moved registers to memory."""
    BUILT = "built"
    """It is built; whether an SM or CU holds a block is not known: its size is computed at run time."""
    CANNOT_LAUNCH = "cannot_launch"
    """It is built, and no SM or CU can hold a block of it, or its grid is too large."""
    NOT_BUILT = "not_built"
    """The compiler refused it, or died of it."""

    @property
    def can_run(self) -> bool:
        """True where nothing that is known speaks against a launch."""
        return self not in (KernelOutcome.CANNOT_LAUNCH, KernelOutcome.NOT_BUILT)


class InspectionStatus(StrEnum):
    """How far the candidate came; only ``inspected`` says that all its kernels were seen."""

    INSPECTED = "inspected"
    NO_KERNELS = "no_kernels"
    """It ran to its end and launched none."""
    NOT_LOADED = "not_loaded"
    """Importing it or constructing ``ModelNew`` raised."""
    NOT_RUN = "not_run"
    """``forward`` raised with tensors that have shapes and no values; it may need the values."""
    TIMEOUT = "timeout"
    """Its time was up and it was killed."""
    CRASHED = "crashed"
    """Its process ended by itself."""
    NOT_BUILT = "not_built"
    """The compiler refused the source that holds all its kernels (CUDA C++, HIP C++)."""
    NOT_ALLOWED = "not_allowed"
    """The source would read files; no compiler has seen it."""
    NOT_THE_FORM = "not_the_form"
    """Sources, launches or flags cannot be used, or name kernels that are not there."""
    NEEDS_HEADERS = "needs_headers"
    """The kernels use a library whose headers are not here; says nothing of the candidate."""


class KernelReport(Frozen):
    """One kernel as it is launched: the same function with other constants or types is another one."""

    kernel: str
    function: str = ""
    """What a profiler calls it, where that is another name: a launch in CUDA C++ or HIP C++ has its own."""
    outcome: KernelOutcome
    detail: str = ""
    """Why it cannot be launched or built; empty otherwise."""
    constants: dict[str, str] = Field(default_factory=dict)
    """Compile-time arguments (block sizes and the like), as text."""
    num_warps: int | None = None
    num_stages: int | None = None
    arguments: dict[str, str] = Field(default_factory=dict)
    """Argument -> Triton's type, e.g. ``*fp32``; constants are left out."""
    unaligned: tuple[str, ...] = ()
    """Pointers that are not known to be multiples of 16 bytes: their accesses stay narrow."""
    grid: tuple[int, ...] | None = None
    """Of its largest launch; None where that is not known."""
    launches: int | None = 0
    """In one call of ``forward``; None where it was not called: CUDA C++ and HIP C++ are only compiled."""
    is_trial: bool = False
    """Only one of the configurations that an autotuner tries."""
    argument_bytes: int | None = None
    """Size of all tensors of its largest launch."""
    facts: dict[str, FactValue] = Field(default_factory=dict)
    """Under the names of core/evidence.py; empty when it is not built."""


class Inspection(Frozen):
    """Everything found out; evidence, never a verdict: it comes from the process that ran the candidate."""

    architecture: str
    """As the compiler calls it, e.g. ``sm_90``."""
    device: str
    """Model of targets/gpu/facts.py whose number of units counts."""
    form: str = KernelForm.TRITON
    """One of ``KernelForm``, or of another package's target."""
    status: InspectionStatus
    detail: str = ""
    """One line: what went wrong, and where; empty when inspected."""
    kernels: tuple[KernelReport, ...] = ()
    """In the order of their first launch; what was seen until the end also where it came early."""
    notes: tuple[str, ...] = ()
    """What was assumed of the candidate as a whole, and what is not known."""
    versions: dict[str, str] = Field(default_factory=dict)
    sandbox: str | None = None
    """How its process was confined (docs/threat-model.md); None: by limits of its own alone."""
    log: str = ""
    """End of what the process wrote to stdout and stderr."""

    @property
    def target(self) -> TargetName:
        """Device and language of the candidate, as it was built here."""
        for target in all_targets():
            if self.form in [form.name for form in target.aot_forms]:
                return target.name
        device = "cuda" if self.architecture.startswith("sm_") else "hip"
        return TargetName(device=device, language="triton")

    @property
    def can_run(self) -> bool:
        """True when every kernel was seen and could be launched; an autotuner's trials may fail."""
        chosen = [kernel for kernel in self.kernels if not kernel.is_trial]
        return self.status is InspectionStatus.INSPECTED and all(k.outcome.can_run for k in chosen)

    @property
    def heaviest(self) -> KernelReport | None:
        """The kernel that moves most: bytes of its tensors times launches. None without a built one.

        Where neither is known, that of the most threads.
        """
        return max(self._built, key=_weight, default=None)

    @property
    def _built(self) -> list[KernelReport]:
        return [kernel for kernel in self.kernels if kernel.facts and kernel.launches != 0]

    def facts(self) -> dict[str, FactValue]:
        """Return the evidence on the candidate: that of its heaviest kernel, with all launches of a call.

        Spills are those of the worst kernel: one that spills is worth knowing wherever it is.
        """
        kernel = self.heaviest
        if kernel is None:
            return {}
        spills = [n for k in self._built if isinstance(n := k.facts.get("aot.spills"), int)]
        launches = [k.launches for k in self.kernels if k.launches is not None]
        return {
            **kernel.facts,
            "aot.spills": max(spills, default=None),
            "gpu.launches": sum(launches) if len(launches) == len(self.kernels) else None,
        }


def _weight(kernel: KernelReport) -> tuple[int, int]:
    threads = kernel.facts.get("aot.block_threads")
    return (
        (kernel.argument_bytes or 0) * (kernel.launches or 0),
        math.prod(kernel.grid or (1,)) * (threads if isinstance(threads, int) else 1),
    )

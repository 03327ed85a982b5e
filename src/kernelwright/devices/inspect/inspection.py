"""What is known of a candidate's kernels before anybody pays for a GPU."""

from enum import StrEnum

from pydantic import Field

from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen


class KernelOutcome(StrEnum):
    """What the compiler and the limits of the architecture say of one kernel."""

    FITS = "fits"
    """It is built, can be launched, and keeps everything in registers."""
    SPILLS = "spills"
    """It can be launched; the compiler has moved registers to memory."""
    CANNOT_LAUNCH = "cannot_launch"
    """It is built, and no SM or CU can hold a block of it, or its grid is too large."""
    NOT_BUILT = "not_built"
    """The compiler refused it, or died of it."""

    @property
    def can_run(self) -> bool:
        """True where a launch would succeed."""
        return self in (KernelOutcome.FITS, KernelOutcome.SPILLS)


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


class KernelReport(Frozen):
    """One kernel as it is launched: the same function with other constants or types is another one."""

    kernel: str
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
    """Of its largest launch; None where it was only built."""
    launches: int = 0
    """In one call of ``forward``."""
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
    """Model of devices/gpu_facts.py whose number of units counts."""
    status: InspectionStatus
    detail: str = ""
    """One line: what went wrong, and where; empty when inspected."""
    kernels: tuple[KernelReport, ...] = ()
    """In the order of their first launch; what was seen until the end also where it came early."""
    versions: dict[str, str] = Field(default_factory=dict)
    sandbox: str | None = None
    """How its process was confined (docs/threat-model.md); None: by limits of its own alone."""
    log: str = ""
    """End of what the process wrote to stdout and stderr."""

    @property
    def can_run(self) -> bool:
        """True when every kernel was seen and could be launched; an autotuner's trials may fail."""
        chosen = [kernel for kernel in self.kernels if not kernel.is_trial]
        return self.status is InspectionStatus.INSPECTED and all(k.outcome.can_run for k in chosen)

    @property
    def heaviest(self) -> KernelReport | None:
        """The kernel that moves most: bytes of its tensors times launches. None without a built one."""
        built = [k for k in self.kernels if k.facts and k.launches]
        return max(built, key=lambda k: (k.argument_bytes or 0) * k.launches, default=None)

    def facts(self) -> dict[str, FactValue]:
        """Return the evidence on the candidate: that of its heaviest kernel, with all launches of a call.

        Spills are those of the worst kernel: one that spills is worth knowing wherever it is.
        """
        kernel = self.heaviest
        if kernel is None:
            return {}
        built = [k for k in self.kernels if k.facts and k.launches]
        spills = [n for k in built if isinstance(n := k.facts.get("aot.spills"), int)]
        return {
            **kernel.facts,
            "aot.spills": max(spills, default=None),
            "gpu.launches": sum(k.launches for k in self.kernels),
        }

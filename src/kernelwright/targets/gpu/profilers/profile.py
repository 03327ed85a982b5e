"""What any profiler says of a run: kernels, how long, and counters where they could be read."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field

from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen


class ProfileStatus(StrEnum):
    """Whether there is anything to go by."""

    PROFILED = "profiled"
    NO_PERMISSION = "no_permission"
    """The driver keeps its counters from this user."""
    NO_KERNELS = "no_kernels"
    """The tool ran and saw none."""
    UNREADABLE = "unreadable"
    """What it wrote is not what it is known to write."""


class KernelProfile(Frozen):
    """All launches of one kernel together."""

    name: str
    """As the tool writes it."""
    launches: int
    total_us: float | None
    """Time of all launches; None where the tool was not asked for it."""
    metrics: dict[str, float] = Field(default_factory=dict)
    """The tool's own names, verbatim -> mean over the launches."""
    facts: dict[str, FactValue] = Field(default_factory=dict)
    """The same under the names of the evidence, as far as they have one."""

    @property
    def mean_us(self) -> float | None:
        """Time of one launch."""
        return None if self.total_us is None else self.total_us / self.launches


class GpuProfile(Frozen):
    """One run under one tool, the kernel with the most time first."""

    tool: str
    status: ProfileStatus
    message: str = ""
    """One line, when there is nothing to go by: why, and what takes its place."""
    kernels: tuple[KernelProfile, ...] = ()
    idle_fraction: float | None = None
    """Of the time from the first kernel's beginning to the last one's end."""

    @property
    def hottest(self) -> KernelProfile | None:
        """Return the kernel that decides the diagnosis: the one with the most time in total."""
        return self.kernels[0] if self.kernels else None

    def facts(self, calls: int) -> dict[str, FactValue]:
        """Return what is known of the hottest kernel and of so many calls of the candidate; may be empty."""
        hottest = self.hottest
        if hottest is None:
            return {}
        found: dict[str, FactValue] = {"gpu.launches": sum(k.launches for k in self.kernels) / calls}
        if hottest.mean_us is not None:
            found["gpu.kernel_us"] = hottest.mean_us
        if self.idle_fraction is not None:
            found["gpu.idle_fraction"] = self.idle_fraction
        return found | hottest.facts


def make_profile(
    tool: str, kernels: Iterable[KernelProfile], idle_fraction: float | None = None
) -> GpuProfile:
    """Return the profile of these kernels, hottest first; of equally hot ones the first stays first."""
    found = sorted(kernels, key=lambda kernel: -(kernel.total_us or 0.0))
    if not found:
        return GpuProfile(tool=tool, status=ProfileStatus.NO_KERNELS, message=f"{tool} saw no kernels")
    return GpuProfile(
        tool=tool, status=ProfileStatus.PROFILED, kernels=tuple(found), idle_fraction=idle_fraction
    )


def unreadable(tool: str, text: str) -> GpuProfile:
    """Return the profile for output that has no table in it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    words = lines[-1][:160] if lines else "nothing"
    message = f"{tool} wrote no table that is known; its last line: {words}"
    return GpuProfile(tool=tool, status=ProfileStatus.UNREADABLE, message=message)


class Profiled(Frozen):
    """What a profiler found, or why there is nothing."""

    facts: dict[str, FactValue] = Field(default_factory=dict)
    """Of the hottest kernel and of one call; empty without a profile."""
    hottest: str | None = None
    """Name of the function that takes the most time."""
    note: str
    """One line: which tool said what, and what the better ones refused."""

"""What a kernel occupies, the same for both vendors."""

from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.targets.gpu.limits import GpuArchitecture
from kernelwright.targets.gpu.occupancy import occupancy, occupancy_facts


class KernelResources(Frozen):
    """Of one kernel, as its compiler reports; None where the report does not say."""

    kernel: str
    registers: int
    """32-bit registers of a thread; on AMD vector and accumulation registers together."""
    scalar_registers: int | None = None
    """AMD's registers of a whole wavefront."""
    spills: int | None = None
    """32-bit registers of a thread that live in memory; NVIDIA: words stored, AMD: registers spilled."""
    local_bytes: int | None = None
    """Stack frame (NVIDIA) or scratch (AMD) of a thread."""
    static_shared_bytes: int = 0
    """Without what a launch adds dynamically."""
    barriers: int | None = None
    reported_waves: int | None = None
    """Waves an execution unit holds according to AMD's compiler, which does not know the dynamic LDS."""


def resource_facts(
    resources: KernelResources,
    architecture: GpuArchitecture,
    *,
    block_threads: int,
    dynamic_shared_bytes: int = 0,
) -> dict[str, FactValue]:
    """Return the resources and the occupancy they allow under the names of the evidence."""
    shared = resources.static_shared_bytes + dynamic_shared_bytes
    found = occupancy(
        architecture, block_threads=block_threads, registers=resources.registers, shared_bytes=shared
    )
    return {
        "aot.registers": resources.registers,
        "aot.spills": resources.spills,
        "aot.local_bytes": resources.local_bytes,
        "aot.shared_bytes": shared,
        "aot.block_threads": block_threads,
        **occupancy_facts(found),
    }

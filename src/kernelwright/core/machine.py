"""The machine that kernels are planned, generated and judged for: a value that is given, never asked for.

Probes make it (``machine/probe.py``; for GPUs ``targets/gpu/machine.py``), the run keeps it, and whatever
decides or generates gets it as an argument. What nobody could find out is None.
"""

from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.core.roofline import Peaks
from kernelwright.core.target import CPU_CPP


class Cache(Frozen):
    """One level of data caches, as far as the usable cores reach."""

    level: int
    """1 is the nearest to the core."""
    instance_bytes: int
    """Bytes of one cache of this level."""
    shared_by: int
    """Cores that share one of them; usable or not."""
    instances: int
    """How many of them the usable cores reach."""


class Accelerator(Frozen):
    """A GPU, as far as plans and evidence need it."""

    kind: str = "cuda"
    """``cuda`` or ``hip``."""
    name: str | None = None
    """Model as our tables name it, else as the driver does."""
    architecture: str | None = None
    """Code name of the compiler's target, e.g. ``sm_90`` or ``gfx942``."""
    units: int | None = None
    """SMs or CUs."""
    warp_lanes: int | None = None
    """Threads of a warp or wavefront."""
    l2_bytes: int | None = None
    """L2, all slices together."""
    shared_bytes_per_unit: int | None = None
    """Shared memory or LDS of an SM or CU."""
    fp32_flops: float | None = None
    """Float32 operations a second at best, as exact as float32."""
    bandwidth: float | None = None
    """Bytes a second of its memory."""
    source: str | None = None
    """Where its peaks are from: ``published`` or ``measured DATE``."""
    peaks: Peaks | None = None
    """Ceilings for products as exact as the task wants them; set once the task is known."""

    def facts(self) -> dict[str, FactValue]:
        """Return the ``gpu.*`` metrics and the ``machine.*`` rates; empty where the model is not known."""
        if self.architecture is None:
            return {}
        rate = self.bandwidth and self.bandwidth / 1e9
        return {
            "gpu.architecture": self.architecture,
            "gpu.units": self.units,
            "gpu.warp_lanes": self.warp_lanes,
            "gpu.l2_bytes": self.l2_bytes,
            "gpu.shared_bytes_per_unit": self.shared_bytes_per_unit,
            "machine.bandwidth_gbps": rate if self.peaks is None else self.peaks.bandwidth_gbps,
            "machine.fma_gflops": None if self.peaks is None else self.peaks.fma_gflops,
            "machine.fp32_gflops": self.fp32_flops and self.fp32_flops / 1e9,
        }


ANY_GPU = Accelerator()
"""Any NVIDIA GPU."""


class Machine(Frozen):
    """One machine. ``Machine()`` is one of which nothing is known."""

    processor: str | None = None
    """Model name."""
    architecture: str | None = None
    """Instruction set's name as the operating system gives it, e.g. ``x86_64``."""
    cores: int | None = None
    """Threads that kernels may use at a time."""
    vector_bytes: int | None = None
    """Width of the widest vector registers."""
    isa: tuple[str, ...] = ()
    """Extensions of the instruction set that matter to kernels, e.g. ``avx512f``; sorted."""
    caches: tuple[Cache, ...] = ()
    """Data caches by level, nearest first; empty where the system names none."""
    memory_bytes: int | None = None
    """Main memory."""
    peaks: Peaks | None = None
    """What the processor sustains at best, as measured."""
    has_counters: bool | None = None
    """Hardware counters can be read."""
    compiler: str | None = None
    """First line of what the C++ compiler says of its version: no path."""
    system: str | None = None
    """Operating system and its release."""
    python: str | None = None
    torch: str | None = None
    kernelwright: str | None = None
    sandbox: str | None = None
    """Tier that confines candidates."""
    accelerator: Accelerator | None = None
    """The GPU that candidates run on; None where they run on the processor."""
    is_elsewhere: bool = False
    """Candidates are judged on this machine by an evaluator on another one than plans."""
    is_assumed: bool = False
    """The evaluator does not say what its machine is: this is the one that plans, in its place."""

    def cache(self, level: int) -> Cache | None:
        """Return the caches of a level, None where there are none or they are not known."""
        return next((cache for cache in self.caches if cache.level == level), None)

    def cache_bytes(self, level: int) -> int | None:
        """Return the bytes of a level that the usable cores reach, all instances together."""
        found = self.cache(level)
        return None if found is None else found.instance_bytes * found.instances

    def facts(self) -> dict[str, FactValue]:
        """Return the ``machine.*`` metrics of what candidates run on, with ``gpu.*`` where that is a GPU."""
        if self.accelerator is not None:
            return self.accelerator.facts()
        known = self.peaks
        return {
            "machine.n_threads": self.cores,
            "machine.vector_bytes": self.vector_bytes,
            "machine.bandwidth_gbps": None if known is None else known.bandwidth_gbps,
            "machine.fma_gflops": None if known is None else known.fma_gflops,
            "counters.available": self.has_counters,
        }

    def environment(self) -> dict[str, FactValue]:
        """Return what measured figures hold for, flat, for reports and JSON."""
        shown: dict[str, FactValue] = {name: getattr(self, field) for name, field in _SHOWN.items()}
        shown |= {f"l{level}_bytes": self.cache_bytes(level) for level in (1, 2, 3)}
        if self.accelerator is None and self.peaks is not None:
            shown |= self.facts()
        if self.accelerator is not None:
            named = {"gpu": self.accelerator.name, "gpu_peaks": self.accelerator.source}
            shown |= {name: value for name, value in named.items() if value is not None}
        if self.is_elsewhere:
            shown["machine_elsewhere" if self.accelerator is None else "gpu_elsewhere"] = True
        if self.is_assumed:
            shown["machine_assumed"] = True
        return shown if self.sandbox is None else {**shown, "sandbox": self.sandbox}

    def without_measures(self) -> "Machine":
        """Return this machine without what differs from one measurement to the next."""
        accelerator = self.accelerator and self.accelerator.model_copy(
            update={"peaks": None, "fp32_flops": None, "bandwidth": None, "source": None}
        )
        return self.model_copy(update={"peaks": None, "accelerator": accelerator})

    def is_like(self, other: "Machine") -> bool:
        """Tell whether figures of the two may stand beside each other: the same in all but measurements."""
        here = {"is_elsewhere": False, "is_assumed": False}
        ours, theirs = (machine.without_measures().model_copy(update=here) for machine in (self, other))
        return ours == theirs

    def completed(self, other: "Machine") -> "Machine":
        """Return this machine, with what is not known of it taken from another one."""
        missing = {
            name: value for name, value in other if getattr(self, name) in (None, ()) and name not in _OWN
        }
        return self.model_copy(update=missing) if missing else self


UNKNOWN_MACHINE = Machine()
"""Nothing is known of it; rules then fall back on figures of their own."""

_SHOWN = {
    "processor": "processor",
    "architecture": "architecture",
    "cores": "cores",
    "vector_bytes": "vector_bytes",
    "memory_bytes": "memory_bytes",
    "kernel": "system",
    "python": "python",
    "torch": "torch",
    "kernelwright": "kernelwright",
    "compiler": "compiler",
}
"""Name in the flat form -> field."""
_OWN = ("accelerator", "is_elsewhere", "is_assumed")
"""Fields that are never taken from another machine."""


def machine_of_environment(environment: dict[str, FactValue], kind: str = CPU_CPP.device) -> Machine:
    """Return what the flat form says of a machine; older records have nothing else.

    ``kind`` is the target's device. The flat form has caches only as sums over all cores, so those are not
    known of one instance, and no peaks with their curve.
    """
    fields: dict[str, FactValue] = {field: environment.get(name) for name, field in _SHOWN.items()}
    fields["cores"] = environment.get("machine.n_threads", fields["cores"])
    fields["vector_bytes"] = environment.get("machine.vector_bytes", fields["vector_bytes"])
    fields["has_counters"] = environment.get("counters.available")
    fields["sandbox"] = environment.get("sandbox")
    gpu = environment.get("gpu")
    return Machine.model_validate(
        {
            **{name: _fitting(name, value) for name, value in fields.items()},
            "accelerator": {"kind": kind, "name": _fitting("gpu", gpu)} if kind != CPU_CPP.device else None,
            "is_elsewhere": bool(environment.get("gpu_elsewhere") or environment.get("machine_elsewhere")),
            "is_assumed": bool(environment.get("machine_assumed")),
        }
    )


_NUMBERS = frozenset({"cores", "vector_bytes", "memory_bytes"})


def _fitting(name: str, value: FactValue) -> FactValue:
    """Return a value of the flat form, None where it is of another kind than the field."""
    wanted: type = int if name in _NUMBERS else bool if name == "has_counters" else str
    return value if type(value) is wanted else None

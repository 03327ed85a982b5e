"""Evidence: named facts about a task and a candidate, and what each name means."""

from enum import StrEnum
from typing import TypeAlias

from pydantic import Field

from kernelwright.core.frozen import Frozen

FactValue: TypeAlias = bool | int | float | str | None


class MetricSpec(Frozen):
    """The meaning of a metric. The skill linter rejects predicates over names that are not listed."""

    kind: str
    """``number``, ``bool`` or ``text``."""
    unit: str
    meaning: str


METRICS: dict[str, MetricSpec] = {
    name: MetricSpec(kind=kind, unit=unit, meaning=meaning)
    for name, kind, unit, meaning in (
        # The task, from the captured graph.
        ("task.flops", "number", "operations", "floating-point operations of the graph"),
        ("task.min_bytes", "number", "bytes", "inputs, used parameters and outputs, once each"),
        ("task.intensity", "number", "operations/byte", "flops over minimum bytes"),
        ("task.bound_by", "text", "", "memory or compute: the larger term of the roofline floor"),
        ("task.floor_ms", "number", "ms", "roofline floor"),
        (
            "task.ridge",
            "number",
            "operations/byte",
            "intensity where this machine's two floors meet",
        ),
        ("task.working_set_fits_cache", "bool", "", "inputs and outputs together fit the cache"),
        ("task.dtype", "text", "", "floating type of most input bytes, e.g. float32 or bfloat16"),
        ("task.tolerance", "text", "", "declared policy: strict, tf32, bf16 or kernelbench"),
        # The structure of the plan's lowered program.
        ("graph.n_pointwise", "number", "nodes", "pointwise nodes in the captured graph"),
        ("graph.n_reductions", "number", "nodes", "reductions, norms and softmaxes"),
        ("graph.n_scans", "number", "nodes", "cumulative sums and products"),
        ("graph.n_windows", "number", "nodes", "pooling nodes"),
        ("graph.n_matmuls", "number", "nodes", "matrix products (library anchors)"),
        ("graph.n_convolutions", "number", "nodes", "convolutions (library anchors)"),
        ("graph.n_attentions", "number", "nodes", "scaled dot-product attentions"),
        ("graph.n_transcendentals", "number", "nodes", "exp, log, tanh, erf and their like"),
        ("graph.n_opaque", "number", "nodes", "operators that run unchanged through torch"),
        ("graph.anchor_flops_fraction", "number", "0..1", "share of the flops in library anchors"),
        (
            "graph.structure",
            "text",
            "",
            "pointwise, reduction, scan, window, anchor, anchor_chain or mixed",
        ),
        (
            "graph.rewrite_gain",
            "number",
            "ratio",
            "largest analytic gain of the graph rewrites that apply; 1 when none does",
        ),
        ("program.n_regions", "number", "regions", "generated kernels a call launches"),
        ("program.materialised_bytes", "number", "bytes", "intermediate tensors written to memory"),
        # The base candidate, measured.
        ("run.latency_ms", "number", "ms", "median latency of the base"),
        ("run.floor_fraction", "number", "0..1", "floor over latency"),
        ("run.bandwidth_gbps", "number", "GB/s", "minimum bytes over latency"),
        ("run.bandwidth_fraction", "number", "0..1", "that over the measured peak"),
        ("run.fma_fraction", "number", "0..1", "flops over latency over the measured FMA peak"),
        ("run.speedup_eager", "number", "ratio", "against eager"),
        ("run.speedup_compile", "number", "ratio", "against torch.compile"),
        (
            "run.eager_drift",
            "number",
            "ratio",
            "eager's latency over its least in this run, where far above 1",
        ),
        ("run.thread_scaling", "number", "ratio", "one thread's latency over all threads'"),
        ("run.anchor_ms_fraction", "number", "0..1", "share of the latency inside library anchors"),
        (
            "run.overhead_ms",
            "number",
            "ms",
            "per-call cost outside kernels: allocation and launches",
        ),
        # The compiler's own report on the base.
        ("compiler.loops", "number", "loops", "inner loops of the generated kernels"),
        ("compiler.vectorized_loops", "number", "loops", "loops the compiler vectorised"),
        ("compiler.vectorized_fraction", "number", "0..1", "vectorised over all inner loops"),
        ("compiler.vector_bytes", "number", "bytes", "widest vectors it used"),
        ("compiler.spills", "number", "instructions", "vector loads and stores of the stack frame"),
        (
            "compiler.vector_arithmetic",
            "number",
            "instructions",
            "float arithmetic on vectors in the code",
        ),
        ("compiler.scalar_arithmetic", "number", "instructions", "float arithmetic on single values in it"),
        ("compiler.vector_fma", "number", "instructions", "multiply-adds on vectors in it"),
        ("compiler.gathers", "number", "instructions", "vector loads from scattered places in it"),
        # Hardware counters, where the kernel lets us read them.
        ("counters.available", "bool", "", "cycles and instructions can be read"),
        ("counters.ipc", "number", "instructions/cycle", "of the base; absent without counters"),
        ("counters.llc_miss_rate", "number", "0..1", "last-level misses over references"),
        # A GPU candidate's kernel as its compiler left it, with no device; targets/gpu/aot/ reads it.
        ("aot.registers", "number", "registers", "32-bit registers a thread occupies"),
        ("aot.spills", "number", "registers", "32-bit registers the compiler moved to memory"),
        ("aot.local_bytes", "number", "bytes", "stack frame or scratch of a thread"),
        ("aot.shared_bytes", "number", "bytes", "shared memory or LDS of a block"),
        ("aot.block_threads", "number", "threads", "threads of a block"),
        ("aot.occupancy", "number", "0..1", "resident over possible warps; targets/gpu/occupancy.py"),
        ("aot.resident_blocks", "number", "blocks", "that one SM or CU holds at a time; 0: cannot launch"),
        ("aot.occupancy_limit", "text", "", "its limit: warps, blocks, registers, shared or launch"),
        ("aot.instructions", "number", "instructions", "in the machine code, not executions"),
        ("aot.load_bytes", "number", "bytes", "mean width of a thread's loads from global memory"),
        ("aot.store_bytes", "number", "bytes", "mean width of a thread's stores to global memory"),
        ("aot.global_accesses", "number", "instructions", "loads and stores of global memory"),
        ("aot.shared_accesses", "number", "instructions", "loads and stores of shared memory or LDS"),
        ("aot.async_copies", "number", "instructions", "copies that go to shared memory past the registers"),
        ("aot.matrix_instructions", "number", "instructions", "tensor core or matrix core products"),
        ("aot.fma_instructions", "number", "instructions", "fused multiply-adds on vector units"),
        ("aot.special_instructions", "number", "instructions", "exp, log, sine, reciprocal, root units"),
        ("aot.shuffles", "number", "instructions", "exchanges between lanes of a warp"),
        ("aot.atomics", "number", "instructions", "atomic operations and reductions in memory"),
        ("aot.barriers", "number", "instructions", "waits of a whole block"),
        ("aot.branches", "number", "instructions", "jumps"),
        # The hottest kernel of a GPU candidate, profiled; targets/gpu/metrics.py maps the tools' names.
        ("gpu.kernel_us", "number", "us", "time of one execution"),
        ("gpu.launches", "number", "launches", "kernels that one call launches"),
        ("gpu.idle_fraction", "number", "0..1", "share of the call in which no kernel runs"),
        ("gpu.sm_fraction", "number", "0..1", "busiest unit of the SMs against its peak"),
        ("gpu.dram_fraction", "number", "0..1", "memory throughput against its peak"),
        ("gpu.l2_fraction", "number", "0..1", "L2 throughput against its peak"),
        ("gpu.l1_fraction", "number", "0..1", "L1 and shared memory throughput against its peak"),
        ("gpu.tensor_fraction", "number", "0..1", "cycles in which the matrix units work"),
        ("gpu.occupancy", "number", "0..1", "warps that were resident against those possible"),
        ("gpu.eligible_warps", "number", "warps", "ready to issue in a cycle, per scheduler"),
        ("gpu.waves", "number", "ratio", "blocks over those the device holds at a time"),
        ("gpu.active_lanes", "number", "0..1", "lanes of a warp that an instruction really used"),
        ("gpu.l1_hit_rate", "number", "0..1", "sectors found in L1"),
        ("gpu.l2_hit_rate", "number", "0..1", "sectors found in L2"),
        ("gpu.sectors_per_load", "number", "sectors", "32-byte sectors a global load of a warp touches"),
        ("gpu.sectors_per_store", "number", "sectors", "32-byte sectors a global store of a warp touches"),
        ("gpu.bank_conflict_fraction", "number", "0..1", "shared memory passes that are repetitions"),
        ("gpu.stall_memory", "number", "0..1", "of a warp's time, waiting for global or local memory"),
        ("gpu.stall_shared", "number", "0..1", "of a warp's time, waiting for shared memory"),
        ("gpu.stall_barrier", "number", "0..1", "of a warp's time, waiting at a block's barrier"),
        # The GPU itself; targets/gpu/facts.py.
        ("gpu.architecture", "text", "", "code name of the compiler's target, e.g. sm_90 or gfx942"),
        ("gpu.units", "number", "units", "SMs or CUs"),
        ("gpu.warp_lanes", "number", "lanes", "threads of a warp or wavefront"),
        ("gpu.l2_bytes", "number", "bytes", "L2, all slices together"),
        ("gpu.shared_bytes_per_unit", "number", "bytes", "shared memory or LDS of an SM or CU"),
        # The machine.
        ("machine.n_threads", "number", "threads", "threads the kernels may use"),
        ("machine.vector_bytes", "number", "bytes", "widest vector registers"),
        ("machine.bandwidth_gbps", "number", "GB/s", "memory's peak: measured, of a GPU else published"),
        (
            "machine.fma_gflops",
            "number",
            "GFLOP/s",
            "measured peak; of a GPU that of the products which the tolerance allows, else published",
        ),
        (
            "machine.fp32_gflops",
            "number",
            "GFLOP/s",
            "of a GPU, float32 that stays as exact: published or measured",
        ),
    )
}
"""All names of evidence. A metric that could not be measured is None, never 0."""


class Evidence(Frozen):
    """Facts under the names of METRICS."""

    facts: dict[str, FactValue] = Field(default_factory=dict)

    def get(self, metric: str) -> FactValue:
        """Return the fact, None when it is unknown."""
        return self.facts.get(metric)

    def with_facts(self, more: dict[str, FactValue]) -> "Evidence":
        """Return this evidence with more facts; the later ones win."""
        return Evidence(facts={**self.facts, **more})


class Bottleneck(StrEnum):
    """What limits the base."""

    MEMORY_BANDWIDTH = "memory_bandwidth"
    """Generated code moves data at or near the machine's rate, or the floor is set by memory."""
    EXTRA_TRAFFIC = "extra_traffic"
    """Intermediates travel through memory although they need not."""
    COMPUTE = "compute"
    """Arithmetic in generated code: transcendentals, unvectorised loops, dependency chains."""
    LIBRARY = "library"
    """Time is inside library anchors (matmul, convolution, attention)."""
    REDUNDANT_WORK = "redundant_work"
    """The graph does work that algebra can remove."""
    PARALLELISM = "parallelism"
    """Threads idle: too few outer iterations or no scaling."""
    OVERHEAD = "overhead"
    """Launches, allocation and Python outweigh the kernels."""
    AT_FLOOR = "at_floor"
    """No gain worth the effort is left."""


class Headroom(StrEnum):
    """How far the base is from the floor."""

    HIGH = "high"
    """Below 40 % of the floor's rate. We chose the thresholds; KernelSkill's 60/80 are for GPU counters."""
    MEDIUM = "medium"
    """40 to 80 %."""
    LOW = "low"
    """Above 80 %."""


class Reason(Frozen):
    """One fact and its interpretation."""

    metric: str
    value: FactValue
    text: str


class Diagnosis(Frozen):
    """What limits the base and the evidence for it."""

    bottleneck: Bottleneck
    also: tuple[Bottleneck, ...] = ()
    """Further bottlenecks that the evidence supports, strongest first."""
    headroom: Headroom
    structure: str
    reasons: tuple[Reason, ...]

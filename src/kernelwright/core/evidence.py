"""The names under which facts about a task and a candidate are known, and the facts themselves."""

from enum import StrEnum
from typing import TypeAlias

from pydantic import Field

from kernelwright.core.frozen import Frozen

FactValue: TypeAlias = bool | int | float | str | None


class MetricSpec(Frozen):
    """What a metric means; the skill linter rejects predicates over names that are not listed."""

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
        # Hardware counters, where the kernel lets us read them.
        ("counters.available", "bool", "", "cycles and instructions can be read"),
        ("counters.ipc", "number", "instructions/cycle", "of the base; absent without counters"),
        ("counters.llc_miss_rate", "number", "0..1", "last-level misses over references"),
        # The machine.
        ("machine.n_threads", "number", "threads", "threads the kernels may use"),
        ("machine.vector_bytes", "number", "bytes", "widest vector registers"),
        ("machine.bandwidth_gbps", "number", "GB/s", "measured peak"),
        ("machine.fma_gflops", "number", "GFLOP/s", "measured peak"),
    )
}
"""Vocabulary of evidence. A metric nobody could measure is None, never 0."""


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
    """Generated code moves data at or near the machine's rate, or would have to."""
    EXTRA_TRAFFIC = "extra_traffic"
    """Intermediates travel through memory that need not."""
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
    """Nothing worth having is left."""


class Headroom(StrEnum):
    """How far the base is from the floor."""

    HIGH = "high"
    """Below 40 % of the floor's rate. Thresholds are ours; KernelSkill's 60/80 are for GPU counters."""
    MEDIUM = "medium"
    """40 to 80 %."""
    LOW = "low"
    """Above 80 %."""


class Reason(Frozen):
    """One fact and what it was taken to mean."""

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

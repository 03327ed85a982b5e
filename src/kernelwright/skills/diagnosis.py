"""Evidence to diagnosis: which part of the latency could be had back, and by what kind of change.

Every rule estimates the same quantity for its bottleneck, the share of the base's latency that a change of
that kind could recover; the largest share names the bottleneck, the others above ALSO_ABOVE follow. A rule
whose facts are missing says nothing. Time that no rule explains is charged to what bounds the task's floor.
All thresholds are ours; docs/skills.md tells where each comes from.
"""

from collections.abc import Callable
from typing import NamedTuple

from kernelwright.core.evidence import Bottleneck, Diagnosis, Evidence, FactValue, Headroom, Reason
from kernelwright.skills.predicate import number

HIGH_BELOW = 0.4
"""Fraction of the floor's rate below which headroom is high."""
LOW_ABOVE = 0.8
"""Above which it is low."""
AT_FLOOR_FROM = 0.9
"""Fraction of the floor from which no change is worth an evaluation: what is left is within what timing
on a shared machine can tell apart."""
REWRITE_WORTH = 1.1
"""Analytic gain of a rewrite from which the floor of the unchanged graph no longer ends the search."""
ALSO_ABOVE = 0.1
"""Recoverable share from which a further bottleneck is named."""
BUSY_RECOVERABLE = 0.5
"""Of time spent in library calls, or moving bytes that must be moved, how much a change gets back at best."""
SPILL_SHARE = 0.2
"""Share charged to vector spills when the compiler reports any."""
LOW_OCCUPANCY = 0.5
"""Resident share of a GPU's warps below which waiting for memory is hard to hide."""
OCCUPANCY_SHARE = 0.2
"""Share charged to a GPU kernel of which next to no warp is resident; in proportion below LOW_OCCUPANCY."""
NARROW_BYTES = 8.0
"""Mean width of a thread's loads on a GPU below which requests, not bytes, may be the limit."""
NARROW_SHARE = 0.15
"""Share charged to loads that are as narrow as can be; in proportion below NARROW_BYTES."""
UNKNOWN_STRUCTURE = "mixed"


class Share(NamedTuple):
    """One bottleneck's recoverable share of the latency, 0..1, and the fact it rests on."""

    bottleneck: Bottleneck
    share: float
    reason: Reason


def diagnose(evidence: Evidence) -> Diagnosis:
    """Return what limits the base; total over any evidence, unknown facts included."""
    headroom, headroom_reason = _headroom(evidence)
    structure = evidence.get("graph.structure")
    structure = structure if isinstance(structure, str) else UNKNOWN_STRUCTURE
    if _is_at_floor(evidence):
        return Diagnosis(
            bottleneck=Bottleneck.AT_FLOOR,
            headroom=headroom,
            structure=structure,
            reasons=(headroom_reason,),
        )
    shares = _ordered_shares(evidence)
    named = [share for share in shares[1:] if share.share >= ALSO_ABOVE]
    return Diagnosis(
        bottleneck=shares[0].bottleneck,
        also=tuple(share.bottleneck for share in named),
        headroom=headroom,
        structure=structure,
        reasons=(headroom_reason, *(share.reason for share in (shares[0], *named))),
    )


def recoverable(evidence: Evidence) -> dict[Bottleneck, float]:
    """Return the share of the latency, 0..1, that a change of each kind could recover by what is known."""
    return {share.bottleneck: share.share for share in _ordered_shares(evidence)}


def _is_at_floor(evidence: Evidence) -> bool:
    fraction = number(evidence, "run.floor_fraction")
    rewrite = number(evidence, "graph.rewrite_gain") or 1.0
    return fraction is not None and fraction >= AT_FLOOR_FROM and rewrite < REWRITE_WORTH


def _headroom(evidence: Evidence) -> tuple[Headroom, Reason]:
    fraction = number(evidence, "run.floor_fraction")
    if fraction is None:
        return Headroom.HIGH, _reason("run.floor_fraction", None, "no floor is known; room is assumed")
    text = f"runs at {fraction:.0%} of the rate the floor allows"
    if fraction < HIGH_BELOW:
        return Headroom.HIGH, _reason("run.floor_fraction", fraction, text)
    tier = Headroom.LOW if fraction > LOW_ABOVE else Headroom.MEDIUM
    return tier, _reason("run.floor_fraction", fraction, text)


def _ordered_shares(evidence: Evidence) -> list[Share]:
    """Return every bottleneck the evidence speaks of, largest share first, never empty."""
    explained = [share for rule in _RULES if (share := rule(evidence)) is not None]
    best: dict[Bottleneck, Share] = {}
    for share in (*explained, _unexplained(evidence, explained)):
        kept = best.get(share.bottleneck)
        if kept is None or share.share > kept.share:
            best[share.bottleneck] = share
    ranks = {bottleneck: rank for rank, bottleneck in enumerate(Bottleneck)}
    return sorted(best.values(), key=lambda share: (-share.share, ranks[share.bottleneck]))


def _redundant_work(evidence: Evidence) -> Share | None:
    gain = number(evidence, "graph.rewrite_gain")
    if gain is None or gain <= 1.0:
        return None
    text = f"a graph rewrite could do the same with {1 - 1 / gain:.0%} less work"
    return _share(Bottleneck.REDUNDANT_WORK, 1 - 1 / gain, "graph.rewrite_gain", gain, text)


def _overhead(evidence: Evidence) -> Share | None:
    cost, latency = number(evidence, "run.overhead_ms"), _latency(evidence)
    if cost is None or latency is None or cost <= 0:
        return None
    text = f"{min(cost / latency, 1):.0%} of the latency is outside kernels"
    return _share(Bottleneck.OVERHEAD, cost / latency, "run.overhead_ms", cost, text)


def _library(evidence: Evidence) -> Share | None:
    measured = number(evidence, "run.anchor_ms_fraction")
    if measured is not None:
        if measured <= 0:
            return None
        text = f"{min(measured, 1):.0%} of the latency is inside library calls"
        share = BUSY_RECOVERABLE * min(measured, 1.0)
        return _share(Bottleneck.LIBRARY, share, "run.anchor_ms_fraction", measured, text)
    flops = number(evidence, "graph.anchor_flops_fraction")
    if flops is None or flops <= 0:
        return None
    text = f"{min(flops, 1):.0%} of the operations are in library calls"
    estimate = BUSY_RECOVERABLE * flops * BUSY_RECOVERABLE  # flops are a poorer witness than milliseconds
    return _share(Bottleneck.LIBRARY, estimate, "graph.anchor_flops_fraction", flops, text)


def _extra_traffic(evidence: Evidence) -> Share | None:
    extra = number(evidence, "program.materialised_bytes")
    if extra is None or extra <= 0:
        return None
    share = min(_traffic_share(evidence, 2 * extra), 1.0)  # each is written once and read at least once
    text = f"intermediates of {extra / 1e6:.3g} MB travel through memory, {share:.0%} of the latency"
    return _share(Bottleneck.EXTRA_TRAFFIC, share, "program.materialised_bytes", extra, text)


def _traffic_share(evidence: Evidence, moved: float) -> float:
    """Estimate the share of the latency that moving so many bytes takes."""
    minimum = number(evidence, "task.min_bytes") or 0.0
    fraction = number(evidence, "run.floor_fraction")
    if evidence.get("task.bound_by") == "memory" and fraction is not None and minimum:
        return fraction * moved / minimum  # the floor knows whether memory or the cache sets the pace
    peak, latency = number(evidence, "machine.bandwidth_gbps"), _latency(evidence)
    if peak and latency:
        return moved / peak / 1e6 / latency
    return moved / (moved + minimum) if minimum else 0.5


def _bandwidth(evidence: Evidence) -> Share | None:
    metric, fraction = _bus(evidence)
    if fraction is None:
        return None
    text = f"moving the unavoidable bytes takes {fraction:.0%} of the latency"
    share = BUSY_RECOVERABLE * fraction
    return _share(Bottleneck.MEMORY_BANDWIDTH, share, metric, evidence.get(metric), text)


def _parallelism(evidence: Evidence) -> Share | None:
    threads, scaling = number(evidence, "machine.n_threads"), number(evidence, "run.thread_scaling")
    if not threads or threads < 2 or not scaling or not 0 < scaling <= threads:
        return None
    # Threads cannot scale where one of them already fills the memory bus, hence _off_bus.
    text = f"{threads:g} threads are {scaling:.2f} times as fast as one"
    share = max(1 - scaling / threads, 0.0) * _off_bus(evidence)
    return _share(Bottleneck.PARALLELISM, share, "run.thread_scaling", scaling, text)


def _unvectorised(evidence: Evidence) -> Share | None:
    fraction = number(evidence, "compiler.vectorized_fraction")
    if fraction is None or fraction >= 1:
        return None
    text = f"{fraction:.0%} of the inner loops are vectorised"
    share = (1 - fraction) * _generated(evidence) * _off_bus(evidence)
    return _share(Bottleneck.COMPUTE, share, "compiler.vectorized_fraction", fraction, text)


def _transcendentals(evidence: Evidence) -> Share | None:
    count = number(evidence, "graph.n_transcendentals")
    if not count:
        return None
    text = f"{count:g} transcendental nodes cost tens of instructions per element"
    share = BUSY_RECOVERABLE * _generated(evidence) * _off_bus(evidence)
    return _share(Bottleneck.COMPUTE, share, "graph.n_transcendentals", count, text)


def _spills(evidence: Evidence) -> Share | None:
    count = number(evidence, "compiler.spills")
    if not count:
        return None
    text = f"{count:g} vector loads and stores go to the stack frame"
    share = SPILL_SHARE * _generated(evidence)
    return _share(Bottleneck.COMPUTE, share, "compiler.spills", count, text)


def _arithmetic(evidence: Evidence) -> Share | None:
    fraction = number(evidence, "run.fma_fraction")
    if fraction is None:
        return None
    text = f"arithmetic runs at {fraction:.0%} of the measured FMA rate"
    own = 1 - (number(evidence, "graph.anchor_flops_fraction") or 0.0)
    share = BUSY_RECOVERABLE * min(fraction, 1.0) * own
    return _share(Bottleneck.COMPUTE, share, "run.fma_fraction", fraction, text)


def _gpu_spills(evidence: Evidence) -> Share | None:
    count = number(evidence, "aot.spills")
    if not count:
        return None
    text = f"{count:g} registers of a thread are spilled to memory"
    return _share(Bottleneck.COMPUTE, SPILL_SHARE * _generated(evidence), "aot.spills", count, text)


def _gpu_idle(evidence: Evidence) -> Share | None:
    idle = number(evidence, "gpu.idle_fraction")
    if not idle:
        return None
    text = f"no kernel runs for {min(idle, 1):.0%} of the call"
    return _share(Bottleneck.OVERHEAD, idle, "gpu.idle_fraction", idle, text)


def _gpu_bandwidth(evidence: Evidence) -> Share | None:
    fraction = number(evidence, "gpu.dram_fraction")
    if fraction is None:
        return None
    text = f"memory is busy for {fraction:.0%} of its peak"
    share = BUSY_RECOVERABLE * fraction
    return _share(Bottleneck.MEMORY_BANDWIDTH, share, "gpu.dram_fraction", fraction, text)


def _gpu_waves(evidence: Evidence) -> Share | None:
    waves = number(evidence, "gpu.waves")
    if waves is None or waves >= 1:
        return None
    text = f"the grid has {waves:.0%} of the blocks that the device can run at once"
    share = (1 - waves) * _generated(evidence) * _off_bus(evidence)
    return _share(Bottleneck.PARALLELISM, share, "gpu.waves", waves, text)


def _gpu_occupancy(evidence: Evidence) -> Share | None:
    resident = number(evidence, "aot.occupancy")
    if resident is None or resident >= LOW_OCCUPANCY:
        return None
    limit = evidence.get("aot.occupancy_limit")
    text = f"at most {resident:.0%} of the possible warps are resident (limit: {limit})"
    lack = 1 - resident / LOW_OCCUPANCY
    share = OCCUPANCY_SHARE * lack * _generated(evidence) * _off_bus(evidence)
    return _share(Bottleneck.PARALLELISM, share, "aot.occupancy", resident, text)


def _gpu_width(evidence: Evidence) -> Share | None:
    width = number(evidence, "aot.load_bytes")
    if width is None or width >= NARROW_BYTES:
        return None
    text = f"a thread loads {width:g} bytes at a time on average"
    share = NARROW_SHARE * (1 - width / NARROW_BYTES) * _generated(evidence)
    return _share(Bottleneck.MEMORY_BANDWIDTH, share, "aot.load_bytes", width, text)


_RULES: tuple[Callable[[Evidence], Share | None], ...] = (
    _redundant_work,
    _overhead,
    _library,
    _extra_traffic,
    _bandwidth,
    _parallelism,
    _unvectorised,
    _transcendentals,
    _spills,
    _arithmetic,
    _gpu_spills,
    _gpu_idle,
    _gpu_bandwidth,
    _gpu_waves,
    _gpu_occupancy,
    _gpu_width,
)


def _unexplained(evidence: Evidence, explained: list[Share]) -> Share:
    """Charge the rest of the latency to what bounds the floor, or where anchors are all there is, to them."""
    busy = {Bottleneck.LIBRARY, Bottleneck.MEMORY_BANDWIDTH}
    total = sum(s.share / (BUSY_RECOVERABLE if s.bottleneck in busy else 1.0) for s in explained)
    rest = max(1.0 - total, 0.0)
    bound = evidence.get("task.bound_by")
    in_anchors = number(evidence, "graph.anchor_flops_fraction") or 0.0
    if number(evidence, "run.anchor_ms_fraction") is None and in_anchors > 0.5:
        owner, text = Bottleneck.LIBRARY, "most operations are in library calls"
    elif bound == "compute":
        owner, text = Bottleneck.COMPUTE, "arithmetic bounds the floor"
    else:
        owner, text = Bottleneck.MEMORY_BANDWIDTH, "memory bounds the floor"
    text = f"nothing measured explains {rest:.0%} of the latency, and {text}"
    return _share(owner, rest, "task.bound_by", bound, text)


def _share(bottleneck: Bottleneck, share: float, metric: str, value: FactValue, text: str) -> Share:
    return Share(bottleneck, min(max(share, 0.0), 1.0), _reason(metric, value, text))


def _reason(metric: str, value: FactValue, text: str) -> Reason:
    return Reason(metric=metric, value=value, text=text)


def _latency(evidence: Evidence) -> float | None:
    latency = number(evidence, "run.latency_ms")
    return latency if latency is not None and latency > 0 else None


def _generated(evidence: Evidence) -> float:
    """Share of the latency in generated code; 1 when unknown."""
    return 1 - min(max(number(evidence, "run.anchor_ms_fraction") or 0.0, 0.0), 1.0)


def _bus(evidence: Evidence) -> tuple[str, float | None]:
    """Return the share of the latency that unavoidable traffic takes, 0..1, and the metric it is from.

    The floor is the better witness where memory bounds it: its bandwidth is that of the cache for what fits.
    """
    metric = "run.floor_fraction" if evidence.get("task.bound_by") == "memory" else "run.bandwidth_fraction"
    if number(evidence, metric) is None:
        metric = "run.bandwidth_fraction"
    fraction = number(evidence, metric)
    return metric, None if fraction is None else min(max(fraction, 0.0), 1.0)


def _off_bus(evidence: Evidence) -> float:
    """Share of the time that unavoidable traffic leaves over; 1 when unknown."""
    return 1 - (_bus(evidence)[1] or 0.0)

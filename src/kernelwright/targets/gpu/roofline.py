"""What a GPU can do at best, in the form in which a processor's peaks are known."""

from kernelwright.core.roofline import BandwidthPoint, Peaks
from kernelwright.targets.gpu.facts import GPUS, GpuFacts

BYTES_A_CLOCK = 128
"""Between one SM or CU and L2, at most: 64 in, as vendors say, and as many out; a ceiling of ours."""
CLOCK_HZ = 3e9
"""No GPU of ours clocks higher; for one whose clock is not known."""
CACHE_BYTES = 256 << 20
"""The largest cache of our GPUs, for one whose cache is not known."""
UNPUBLISHED = 1.25
"""What a GPU without published peaks may reach beyond what was measured on it."""
_BEYOND = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Points of the curve: by how much of the cache a working set is larger than it."""


def gpu_peaks(gpu: GpuFacts, *, is_strict: bool) -> Peaks:
    """Return the rates of a GPU; no kernel moves a working set faster than they say, with warm caches.

    Bytes that fit the caches are never counted as traffic of memory: a working set of N bytes moves N - cache
    of them at memory's rate. ``is_strict``: float32 products that must be as exact as float32; otherwise
    inputs may be rounded to 16 bits.
    """
    cached = gpu.units * BYTES_A_CLOCK * (gpu.boost_clock_hz or CLOCK_HZ)
    cache = max(gpu.l2_bytes or 0, gpu.last_level_bytes or 0) or CACHE_BYTES
    memory = gpu.memory_bandwidth
    beyond = [(cache + int(cache * x), min(cached, memory * (1 + 1 / x))) for x in _BEYOND]
    points = [(1, cached), *beyond]
    return Peaks(
        device=gpu.label,
        n_threads=gpu.units * gpu.limits.max_warps * gpu.limits.warp_lanes,
        bandwidth_gbps=memory / 1e9,
        cache_bandwidth_gbps=cached / 1e9,
        cache_bytes=cache,
        fma_gflops=_product_peak(gpu, is_strict=is_strict) / 1e9,
        source=source_of(gpu),
        curve=tuple(BandwidthPoint(working_set=size, gbps=rate / 1e9) for size, rate in points),
    )


def _product_peak(gpu: GpuFacts, *, is_strict: bool) -> float:
    """Return the operations a second that products can reach, by whatever units a library may use.

    Strict products may still go through matrix units, in several parts: never faster than TF32.
    """
    flops = gpu.flops
    sixteen = max(flops.bf16 or 0.0, flops.fp16 or 0.0)
    if is_strict:
        return max(flops.fp32 or 0.0, flops.tf32 or sixteen / 2)
    doubled = (flops.fp8 or 0.0) if gpu.architecture == "sm_89" else 0.0  # fp16 with fp16 sums, on GeForce
    return max(flops.fp32 or 0.0, flops.tf32 or 0.0, sixteen, doubled)


def ceilings(gpu: GpuFacts) -> GpuFacts:
    """Return the facts with the higher of published and measured peaks, for floors that reject candidates.

    A probe on a busy device measures too low, and a kernel may do better than a library: what is published,
    if anything, ends that. Where nothing is, what was measured counts UNPUBLISHED times.
    """
    published = GPUS.get(gpu.name)
    if published is None:
        flops = {name: peak and peak * UNPUBLISHED for name, peak in gpu.flops}
        bandwidth = gpu.memory_bandwidth * UNPUBLISHED
    else:
        flops = {
            name: max(peak or 0.0, getattr(published.flops, name) or 0.0) or None for name, peak in gpu.flops
        }
        bandwidth = max(gpu.memory_bandwidth, published.memory_bandwidth)
    return gpu.model_copy(update={"memory_bandwidth": bandwidth, "flops": gpu.flops.model_copy(update=flops)})


def source_of(gpu: GpuFacts) -> str:
    """Say in a word where its peaks are from: ``measured DATE``, or ``published``."""
    measured = {source for source in gpu.sources.values() if source.startswith("measured ")}
    return max(measured, default="published")

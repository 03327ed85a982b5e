"""Published figures of the GPUs we care about, each with the document it is from.

Peaks are dense, never with 2:4 sparsity. A figure for which no document could be looked up, or for which the
documents contradict each other, is None. Looked up on 2026-11-21 in stored copies of the documents named.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from kernelwright.core.errors import UserError
from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.targets.gpu.limits import ARCHITECTURES, GpuArchitecture

Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]

_BOOK = "stas00/ml-engineering, compute/accelerator/README.md (read 2026-11)"
_KLOCKWOOD = "glennklockwood.com/garden/processors"
_MI300 = "ROCm documentation, MI300 microarchitecture, table of peaks (docs/conceptual/gpu-arch/mi300.md)"
_ROCM_SPECS = "ROCm documentation, GPU hardware specifications (docs/reference/gpu-arch-specs.rst)"
_ROCM_SPECS_713 = "ROCm 7.13 documentation, AMD GPU specifications (reference/gpu-specs.html)"
_A100_QUERY = "deviceQuery of an A100 SXM4 40 GB, PC2 Paderborn wiki: 41943040 bytes, 1410 MHz, 108 SMs"


class PeakFlops(Frozen):
    """Operations a second, a fused multiply-add counted as two; products accumulate in fp32."""

    fp32: float | None = None
    """On the vector units: what plain float arithmetic can reach."""
    tf32: float | None = None
    bf16: float | None = None
    fp16: float | None = None
    fp8: float | None = None


class GpuFacts(Frozen):
    """One model of GPU."""

    name: str
    """Key of the table, e.g. ``h100-sxm``."""
    label: str
    """As the vendor writes it."""
    architecture: str
    """Key of targets/gpu/limits.py."""
    aliases: tuple[str, ...] = ()
    """Whole names that drivers report for this model, and short ones that people say; any case."""
    units: int
    """SMs or CUs that are switched on."""
    boost_clock_hz: float | None = None
    memory_gb: float
    """As the vendor labels it; whether 1e9 or 2**30 bytes are meant differs between them."""
    memory_bandwidth: float
    """Bytes a second."""
    l2_bytes: int | None = None
    """All slices together."""
    last_level_bytes: int | None = None
    """A cache behind L2 (AMD's Infinity Cache); None: none or unknown."""
    flops: PeakFlops
    sources: dict[str, str] = Field(default_factory=dict)
    """Field, or ``flops.PRECISION``, -> document. ``measured ...`` where a measurement took its place."""

    @model_validator(mode="after")
    def _every_figure_has_a_source(self) -> Self:
        known = {name for name in _FIGURES if getattr(self, name) is not None}
        known |= {f"flops.{name}" for name, peak in self.flops if peak is not None}
        if known != set(self.sources):
            raise ValueError(f"{self.name}: sources differ from figures in {known ^ set(self.sources)}")
        if self.architecture not in ARCHITECTURES:
            raise ValueError(f"{self.name}: unknown architecture {self.architecture!r}")
        return self

    @property
    def names(self) -> frozenset[str]:
        """Every name that means this model, in small letters."""
        return frozenset((self.name, *map(str.lower, self.aliases)))

    @property
    def limits(self) -> GpuArchitecture:
        """What one SM or CU holds."""
        return ARCHITECTURES[self.architecture]


_FIGURES = ("units", "boost_clock_hz", "memory_gb", "memory_bandwidth", "l2_bytes", "last_level_bytes")


class MeasuredPeaks(Frozen):
    """What a probe reached on a device that is present."""

    memory_bandwidth: float | None = None
    """Bytes a second."""
    flops: PeakFlops = PeakFlops()
    source: str
    """How, when and where, e.g. ``measured 2026-11-21``."""


def with_measured(facts: GpuFacts, measured: MeasuredPeaks) -> GpuFacts:
    """Return the facts with measured figures in the place of published ones; what was not measured stays."""
    peaks = {name: peak for name, peak in measured.flops if peak is not None}
    changes: dict[str, object] = {f"flops.{name}": peak for name, peak in peaks.items()}
    if measured.memory_bandwidth is not None:
        changes["memory_bandwidth"] = measured.memory_bandwidth
    fields = {name: value for name, value in changes.items() if "." not in name}
    return GpuFacts.model_validate(
        {
            **facts.model_dump(),
            **fields,
            "flops": {**facts.flops.model_dump(), **peaks},
            "sources": {**facts.sources, **dict.fromkeys(changes, measured.source)},
        }
    )


def find_gpu(name: str) -> GpuFacts:
    """Return the facts by our name, a driver's whole name (``NVIDIA H200``) or a short one (``h100``).

    Raises:
        UserError: not in the table. Figures of a similar model (``NVIDIA H200 NVL``, a ``Laptop GPU``, a
            slice of MIG) would be a guess.
    """
    wanted = " ".join(name.lower().split())
    found = next((gpu for gpu in GPUS.values() if wanted in gpu.names), None)
    if found is None:
        raise UserError(f"no figures for the GPU {name!r}; known: {', '.join(GPUS)}")
    return found


def gpu_facts(facts: GpuFacts) -> dict[str, FactValue]:
    """Return what the evidence says of a device, published or measured."""
    return {
        "gpu.architecture": facts.architecture,
        "gpu.units": facts.units,
        "gpu.warp_lanes": facts.limits.warp_lanes,
        "gpu.l2_bytes": facts.l2_bytes,
        "gpu.shared_bytes_per_unit": facts.limits.shared_bytes,
    }


def _all_flops(peaks: PeakFlops, source: str, **others: str) -> dict[str, str]:
    named = {f"flops.{name}": source for name, peak in peaks if peak is not None}
    return {**named, **{f"flops.{name}": other for name, other in others.items()}}


_A100 = PeakFlops(fp32=19.5e12, tf32=156e12, bf16=312e12, fp16=312e12)
_A100_SOURCES = {
    "units": _A100_QUERY,
    "boost_clock_hz": _A100_QUERY,
    "l2_bytes": _A100_QUERY,
    **_all_flops(_A100, f"NVIDIA A100 datasheet, quoted in {_KLOCKWOOD}/A100 and in {_BOOK}"),
}
_A100_MEMORY = "NVIDIA A100 datasheet, quoted in thundercompute.com/blog/nvidia-a100-specs-full-guide"
_H100 = PeakFlops(fp32=66.9e12, tf32=494.7e12, bf16=989.4e12, fp16=989.4e12, fp8=1978.9e12)
_H200 = PeakFlops(fp32=67.0e12, tf32=494.5e12, bf16=989e12, fp16=989e12, fp8=1979e12)
_B200 = PeakFlops(fp32=75e12, tf32=1125e12, bf16=2250e12, fp16=2250e12, fp8=4500e12)
_L40S = PeakFlops(fp32=91.6e12, tf32=183e12, bf16=362.05e12, fp16=362.05e12, fp8=733e12)
_RTX_4090 = PeakFlops(fp32=82.58e12, tf32=82.58e12, bf16=165.15e12, fp16=165.15e12, fp8=330.30e12)
_MI300X = PeakFlops(fp32=163.4e12, tf32=653.7e12, bf16=1307.4e12, fp16=1307.4e12, fp8=2614.9e12)
_MI355X = PeakFlops(fp32=157.3e12, bf16=2516.6e12, fp16=2516.6e12, fp8=5033.2e12)
_H100_L2 = f"NVIDIA Hopper Tuning Guide, quoted in {_BOOK}"
_B200_PAGE = "hmc-tech.com/gpus/nvidia-b200-vs-nvidia-b100"
_4090_PAGE = "waredb.com/processor/nvidia-geforce-rtx-4090"

GPUS: dict[str, GpuFacts] = {
    gpu.name: gpu
    for gpu in (
        GpuFacts(
            name="a100-40gb-sxm",
            label="NVIDIA A100 SXM4 40 GB",
            architecture="sm_80",
            aliases=("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB", "a100-40gb"),
            units=108,
            boost_clock_hz=1.41e9,
            memory_gb=40,
            memory_bandwidth=1555e9,
            l2_bytes=41943040,
            flops=_A100,
            sources={"memory_gb": _A100_MEMORY, "memory_bandwidth": _A100_MEMORY, **_A100_SOURCES},
        ),
        GpuFacts(
            name="a100-80gb-sxm",
            label="NVIDIA A100 SXM4 80 GB",
            architecture="sm_80",
            aliases=("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", "a100-80gb"),
            units=108,
            boost_clock_hz=1.41e9,
            memory_gb=80,
            memory_bandwidth=2039e9,
            l2_bytes=41943040,
            flops=_A100,
            sources={"memory_gb": _A100_MEMORY, "memory_bandwidth": _A100_MEMORY, **_A100_SOURCES},
        ),
        GpuFacts(
            name="h100-sxm",
            label="NVIDIA H100 SXM5",
            architecture="sm_90",
            aliases=("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM5", "h100"),
            units=132,
            boost_clock_hz=1.98e9,
            memory_gb=80,
            memory_bandwidth=3350e9,
            l2_bytes=50 << 20,
            flops=_H100,
            sources={
                "units": f"{_KLOCKWOOD}/h100, after NVIDIA's H100 white paper",
                "boost_clock_hz": f"{_KLOCKWOOD}/h100; the tensor peaks hold for 1.83 GHz",
                "memory_gb": "archive-lib.hpctech.co.jp/gpuproduct/nvidia-h100.html",
                "memory_bandwidth": "archive-lib.hpctech.co.jp/gpuproduct/nvidia-h100.html",
                "l2_bytes": _H100_L2,
                **_all_flops(_H100, f"NVIDIA H100 white paper, quoted in {_KLOCKWOOD}/h100"),
            },
        ),
        GpuFacts(
            name="h200-sxm",
            label="NVIDIA H200 SXM",
            architecture="sm_90",
            aliases=("NVIDIA H200", "NVIDIA H200 SXM", "h200"),
            units=132,
            boost_clock_hz=1.98e9,
            memory_gb=141,
            memory_bandwidth=4800e9,
            l2_bytes=50 << 20,
            flops=_H200,
            sources={
                "units": "saulelectric.com/nvidia-h200.html",
                "boost_clock_hz": "hmc-tech.com/gpu/nvidia-h100-vs-nvidia-h200-sxm-vs-nvidia-gb200",
                "memory_gb": f"NVIDIA H200 specifications, quoted in {_BOOK}",
                "memory_bandwidth": f"NVIDIA H200 specifications, quoted in {_BOOK}",
                "l2_bytes": f"{_H100_L2}; the same die: lzwjava.github.io/nvidia-h200-gpu-specs-en",
                **_all_flops(_H200, f"NVIDIA H200 specifications, quoted in {_BOOK}"),
            },
        ),
        GpuFacts(
            name="b200-sxm",
            label="NVIDIA B200 SXM (HGX, 1000 W)",
            architecture="sm_100",
            aliases=("NVIDIA B200", "NVIDIA B200 SXM", "b200"),
            units=148,
            boost_clock_hz=1.98e9,
            memory_gb=180,
            memory_bandwidth=8000e9,
            l2_bytes=126 << 20,
            flops=_B200,
            sources={
                "units": "chipsandcheese.com/p/nvidias-b200-keeping-the-cuda-juggernaut",
                "boost_clock_hz": f"{_B200_PAGE}; tensor cores at 1.86 GHz",
                "memory_gb": f"NVIDIA HGX AI Factory components, quoted in {_BOOK}; other pages say 192",
                "memory_bandwidth": f"NVIDIA DGX B200 datasheet, quoted in {_BOOK}",
                "l2_bytes": f"NVIDIA Blackwell Tuning Guide (GB200), quoted in {_BOOK}",
                **_all_flops(
                    _B200,
                    f"NVIDIA DGX B200 datasheet, quoted in {_BOOK}",
                    fp32=f"{_B200_PAGE}: 75.02, which is units x clock; 80, quoted elsewhere, is not",
                ),
            },
        ),
        GpuFacts(
            name="l40s",
            label="NVIDIA L40S",
            architecture="sm_89",
            aliases=("NVIDIA L40S", "l40s"),
            units=142,
            boost_clock_hz=2.52e9,
            memory_gb=48,
            memory_bandwidth=864e9,
            l2_bytes=96 << 20,
            flops=_L40S,
            sources={
                "units": "computizer.com, NVIDIA L40S",
                "boost_clock_hz": "itcreations.com, NVIDIA L40S",
                "memory_gb": "mullet.se, NVIDIA L40/L40S, after NVIDIA's datasheet",
                "memory_bandwidth": "mullet.se, NVIDIA L40/L40S, after NVIDIA's datasheet",
                "l2_bytes": "arxiv.org/abs/2606.22588: an L40, of the same die and 142 SMs, has 96 MiB",
                **_all_flops(_L40S, f"mullet.se, NVIDIA L40/L40S, after NVIDIA's datasheet; {_BOOK}"),
            },
        ),
        GpuFacts(
            name="rtx-4090",
            label="NVIDIA GeForce RTX 4090",
            architecture="sm_89",
            aliases=("NVIDIA GeForce RTX 4090", "GeForce RTX 4090", "RTX 4090", "4090"),
            units=128,
            boost_clock_hz=2.52e9,
            memory_gb=24,
            memory_bandwidth=1008e9,
            l2_bytes=72 << 20,
            flops=_RTX_4090,
            sources={
                "units": "gigagpu.com, RTX 4090 TFLOPS",
                "boost_clock_hz": _4090_PAGE,
                "memory_gb": _4090_PAGE,
                "memory_bandwidth": _4090_PAGE,
                "l2_bytes": f"{_4090_PAGE}; techgoing.com, RTX 4090",
                **_all_flops(_RTX_4090, f"{_4090_PAGE}; accumulating in fp16 doubles fp16 and fp8"),
            },
        ),
        GpuFacts(
            name="mi300x",
            label="AMD Instinct MI300X",
            architecture="gfx942",
            aliases=("AMD Instinct MI300X", "AMD Instinct MI300X OAM"),
            units=304,
            boost_clock_hz=2.1e9,
            memory_gb=192,
            memory_bandwidth=5300e9,
            l2_bytes=32 << 20,
            last_level_bytes=256 << 20,
            flops=_MI300X,
            sources={
                "units": _ROCM_SPECS,
                "boost_clock_hz": f"AMD's peak engine clock, quoted in {_BOOK}",
                "memory_gb": _ROCM_SPECS,
                "memory_bandwidth": _MI300,
                "l2_bytes": f"{_ROCM_SPECS}: 4 MiB on each of 8 dies",
                "last_level_bytes": _ROCM_SPECS,
                **_all_flops(_MI300X, _MI300),
            },
        ),
        GpuFacts(
            name="mi355x",
            label="AMD Instinct MI355X",
            architecture="gfx950",
            aliases=("AMD Instinct MI355X", "AMD Instinct MI355X OAM"),
            units=256,
            boost_clock_hz=2.4e9,
            memory_gb=288,
            memory_bandwidth=8000e9,
            l2_bytes=32 << 20,
            last_level_bytes=256 << 20,
            flops=_MI355X,
            sources={
                "units": _ROCM_SPECS_713,
                "boost_clock_hz": f"AMD's peak engine clock, quoted in {_BOOK}",
                "memory_gb": _ROCM_SPECS_713,
                "memory_bandwidth": f"AMD MI355X specifications, quoted in {_BOOK}",
                "l2_bytes": f"{_ROCM_SPECS_713}: 4 MiB on each of 8 dies",
                "last_level_bytes": _ROCM_SPECS_713,
                **_all_flops(
                    _MI355X,
                    f"AMD MI355X specifications, quoted and recalculated in {_BOOK}",
                    fp8="8192 operations a clock and CU at 2.4 GHz: triton 3.7.1, profiler/specs.py",
                ),
            },
        ),
    )
}
"""By name. Tensor peaks of NVIDIA's datasheets are halved where those count sparsity."""

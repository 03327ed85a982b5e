"""Device facts: complete, sourced, consistent with themselves; measurements take their place."""

import pytest
from pydantic import ValidationError

from kernelwright.core.errors import UserError
from kernelwright.core.evidence import METRICS
from kernelwright.targets.gpu.facts import GPUS, MeasuredPeaks, PeakFlops, find_gpu, gpu_facts, with_measured
from kernelwright.targets.gpu.limits import ARCHITECTURES, GpuArchitecture, find_architecture

WANTED = {
    "a100-40gb-sxm", "a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "l40s", "rtx-4090",
    "mi300x", "mi355x",
}  # fmt: skip


def test_every_wanted_device_is_there_and_uses_every_architecture() -> None:
    assert set(GPUS) == WANTED
    assert {gpu.architecture for gpu in GPUS.values()} == set(ARCHITECTURES)


def test_a_figure_without_a_source_is_refused() -> None:
    gpu = GPUS["h100-sxm"].model_dump()
    del gpu["sources"]["flops.fp8"]
    with pytest.raises(ValidationError, match=r"flops\.fp8"):
        type(GPUS["h100-sxm"]).model_validate(gpu)
    limits = ARCHITECTURES["sm_80"].model_dump()
    with pytest.raises(ValidationError, match="partitions"):
        GpuArchitecture.model_validate({**limits, "sources": {**limits["sources"], "partitions": None}})
    del limits["sources"]["partitions"]
    with pytest.raises(ValidationError, match="partitions"):
        GpuArchitecture.model_validate(limits)


@pytest.mark.parametrize("name", sorted(WANTED))
def test_peaks_are_dense_and_grow_as_precision_falls(name: str) -> None:
    flops = GPUS[name].flops
    assert flops.fp32 is not None and flops.bf16 is not None and flops.bf16 == flops.fp16
    assert flops.fp32 <= (flops.tf32 or flops.bf16) <= flops.bf16 <= (flops.fp8 or flops.bf16)
    if flops.tf32 is not None:
        assert 1.9 <= flops.bf16 / flops.tf32 <= 2.1  # a figure with sparsity beside a dense one would show
    if flops.fp8 is not None:
        assert 1.9 <= flops.fp8 / flops.bf16 <= 2.1


@pytest.mark.parametrize(
    ("name", "lanes"),
    [
        *((name, 64) for name in sorted(WANTED) if "a100" in name),
        *((name, 128) for name in sorted(WANTED) if "a100" not in name),
    ],
)
def test_fp32_peak_is_units_times_clock_times_lanes(name: str, lanes: int) -> None:
    gpu = GPUS[name]
    assert gpu.boost_clock_hz is not None
    assert gpu.flops.fp32 == pytest.approx(gpu.units * lanes * 2 * gpu.boost_clock_hz, rel=0.01)


def test_devices_are_found_by_what_a_driver_reports() -> None:
    assert find_gpu("NVIDIA H200").name == "h200-sxm"
    assert find_gpu("nvidia a100-sxm4-80gb").name == "a100-80gb-sxm"
    assert find_gpu("rtx-4090").name == "rtx-4090"


def test_what_people_call_them_is_enough_and_no_name_means_two() -> None:
    short = {"h100": "h100-sxm", "H200": "h200-sxm", "b200": "b200-sxm", " mi300x ": "mi300x"}
    assert {name: find_gpu(name).name for name in short} == short
    names = [name for gpu in GPUS.values() for name in gpu.names]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA H100 PCIe", "NVIDIA GeForce RTX 4080", "", "NVIDIA H200 NVL", "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA H200 MIG 1g.18gb", "NVIDIA L40", "AMD Instinct MI300A",
        "NVIDIA GB200",
    ],
)  # fmt: skip
def test_similar_devices_are_no_guess(name: str) -> None:
    with pytest.raises(UserError, match="no figures"):
        find_gpu(name)


def test_measured_peaks_override_and_say_so() -> None:
    measured = MeasuredPeaks(memory_bandwidth=4.2e12, flops=PeakFlops(fp32=51e12), source="measured here")
    merged = with_measured(GPUS["h200-sxm"], measured)
    assert (merged.memory_bandwidth, merged.flops.fp32) == (4.2e12, 51e12)
    assert merged.flops.bf16 == GPUS["h200-sxm"].flops.bf16
    overridden = {name for name, source in merged.sources.items() if source == "measured here"}
    assert overridden == {"memory_bandwidth", "flops.fp32"}
    assert GPUS["h200-sxm"].memory_bandwidth == 4.8e12


def test_facts_speak_the_vocabulary_of_the_evidence() -> None:
    for gpu in GPUS.values():
        assert set(gpu_facts(gpu)) <= set(METRICS)


def test_the_compiler_s_suffix_does_not_matter() -> None:
    assert find_architecture("sm_90a") is ARCHITECTURES["sm_90"]
    assert find_architecture("gfx942") is ARCHITECTURES["gfx942"]
    with pytest.raises(UserError, match="known: sm_80"):
        find_architecture("sm_70")

"""Occupancy: published examples, what compilers said of real kernels, and what must always hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.evidence import METRICS
from kernelwright.targets.gpu.limits import ARCHITECTURES
from kernelwright.targets.gpu.occupancy import Occupancy, occupancy, occupancy_facts

NAMES = sorted(ARCHITECTURES)


def of(name: str, threads: int, registers: int, shared: int = 0) -> Occupancy:
    return occupancy(ARCHITECTURES[name], block_threads=threads, registers=registers, shared_bytes=shared)


@pytest.mark.parametrize(("threads", "blocks", "fraction"), [(128, 12, 0.75), (320, 4, 0.625)])
def test_the_example_of_nvidia_s_best_practices_guide(threads: int, blocks: int, fraction: float) -> None:
    """37 registers on compute capability 7.0, whose limits for registers and warps are those of 8.0."""
    found = of("sm_80", threads, 37)
    assert (found.blocks, found.fraction, found.limit) == (blocks, fraction, "registers")


def test_the_example_of_rocm_s_tuning_guide() -> None:
    """170 vector registers become 176, and three times 176 is more than 512: two waves a unit."""
    assert of("gfx942", 256, 170).warps == 2 * 4
    assert of("gfx942", 256, 168).warps == 3 * 4


@pytest.mark.parametrize(
    ("registers", "threads", "waves"), [(68, 512, 7), (74, 64, 6), (104, 512, 4), (200, 256, 2), (32, 256, 8)]
)
def test_amd_s_compiler_says_the_same(registers: int, threads: int, waves: int) -> None:
    """Registers and the remark ``Occupancy`` of kernels that Triton 3.7.1 compiled for gfx942."""
    found = of("gfx942", threads, registers)
    assert min(found.blocks_by["registers"], found.blocks_by["warps"]) == waves * 4 * 64 // threads


def test_rocm_s_formula_for_lds() -> None:
    found = of("gfx942", 512, 104, 32768)
    assert (found.blocks, found.limit) == (2, "registers")  # both allow 2; registers come first
    assert of("gfx942", 512, 64, 32768).limit == "shared"


def test_the_driver_s_kilobyte_counts_on_nvidia() -> None:
    assert of("sm_90", 32, 8, 12 << 10).blocks == 228 // 13
    assert of("sm_90", 128, 32, 113 << 10).blocks == 2
    assert of("sm_90", 128, 32, (113 << 10) + 1).blocks == 1


def test_one_wave_blocks_need_no_barrier_on_amd() -> None:
    assert of("gfx942", 64, 8).blocks == 32
    assert of("gfx942", 128, 8).blocks == 16


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared"),
    [
        ("sm_80", 1025, 16, 0),
        ("sm_80", 1024, 65, 0),
        ("sm_80", 32, 256, 0),
        ("sm_80", 128, 32, 164 << 10),
        ("gfx942", 64, 16, (64 << 10) + 1),
        ("gfx942", 64, 513, 0),
    ],
)
def test_what_cannot_launch_says_so(name: str, threads: int, registers: int, shared: int) -> None:
    found = of(name, threads, registers, shared)
    assert (found.blocks, found.fraction, found.limit) == (0, 0.0, "launch")


@given(
    name=st.sampled_from(NAMES),
    threads=st.integers(1, 1100),
    registers=st.integers(0, 520),
    shared=st.integers(0, 240 << 10),
)
def test_what_is_resident_fits_and_one_more_block_would_not(
    name: str, threads: int, registers: int, shared: int
) -> None:
    limits, found = ARCHITECTURES[name], of(name, threads, registers, shared)
    assert 0.0 <= found.fraction <= 1.0
    if found.limit == "launch":
        return
    assert found.warps <= limits.max_warps and found.blocks <= limits.max_blocks
    assert found.warps * limits.warp_lanes * registers <= limits.registers
    assert found.blocks * (shared + limits.shared_reserved) <= limits.shared_bytes
    assert found.blocks == found.blocks_by[found.limit] == min(found.blocks_by.values())


@given(
    name=st.sampled_from(NAMES),
    threads=st.integers(1, 1024),
    registers=st.integers(0, 254),
    shared=st.integers(0, 60 << 10),
    more=st.tuples(st.integers(0, 64), st.integers(0, 8 << 10)),
)
def test_more_of_anything_never_fits_more_blocks(
    name: str, threads: int, registers: int, shared: int, more: tuple[int, int]
) -> None:
    less = of(name, threads, registers, shared)
    greater = of(name, threads, registers + more[0], shared + more[1])
    assert greater.blocks <= less.blocks


def test_no_kernel_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no kernel"):
        of("sm_80", 0, 16)


def test_facts_speak_the_vocabulary_of_the_evidence() -> None:
    assert set(occupancy_facts(of("sm_90", 256, 64))) <= set(METRICS)

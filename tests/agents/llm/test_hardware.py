"""What prompts say of the processor: only what was measured."""

from kernelwright.agents.llm.hardware import TIMED, hardware_lines
from kernelwright.core.machine import Cache, Machine
from kernelwright.core.roofline import MEMORY, BandwidthPoint, LevelRate
from kernelwright.testing.fake_run import PEAKS

MACHINE = Machine(
    isa=("avx2", "fma"),
    caches=(
        Cache(level=1, instance_bytes=32 << 10, shared_by=1, instances=2),
        Cache(level=3, instance_bytes=32 << 20, shared_by=8, instances=1),
    ),
)


def rate(level: int, threads: int) -> LevelRate:
    return LevelRate(
        level=level, threads=threads, working_set=1, read_gbps=100, write_gbps=50.25, copy_gbps=75
    )


def test_nothing_is_said_of_what_nobody_measured() -> None:
    assert hardware_lines(MACHINE, PEAKS) == ["- Instruction set: avx2, fma."]
    assert hardware_lines(Machine(), PEAKS) == []


def test_vectors_and_the_compiler_are_told_where_they_are_known() -> None:
    assert hardware_lines(Machine(vector_bytes=64, compiler="g++ 12.2.0"), PEAKS) == [
        "- Vectors of 64 bytes (16 float32).",
        "- Compiler: g++ 12.2.0.",
    ]


def test_what_one_chain_of_multiply_adds_reaches_is_told() -> None:
    (first, _) = hardware_lines(MACHINE, PEAKS.model_copy(update={"fma_in_flight": 8.1}))
    assert first.startswith("- Multiply-adds are at their rate with 8 independent vector accumulators")
    assert "one alone reaches 12 %" in first


def test_levels_functions_and_instruction_set_are_told() -> None:
    known = {"levels": (rate(1, 1), rate(3, 2), rate(MEMORY, 2)), "functions": (("exp", 19.7), ("div", 57.0))}
    assert hardware_lines(MACHINE, PEAKS.model_copy(update=known)) == [
        "- Instruction set: avx2, fma.",
        "- L1 (2 x 32 KiB), 1 thread: read 100, write 50.2, copy 75 GB/s.",
        "- L3 (32 MiB for 8 cores), 2 threads: read 100, write 50.2, copy 75 GB/s.",
        "- Memory, 2 threads: read 100, write 50.2, copy 75 GB/s.",
        "- Elementary functions at best, 1e9 a second on all threads: exp 19.7, div 57.",
        TIMED,
    ]
    points = (
        BandwidthPoint(working_set=48 << 10, gbps=410.4),
        BandwidthPoint(working_set=5 << 19, gbps=98.0),
    )
    curve = hardware_lines(MACHINE, PEAKS.model_copy(update={**known, "curve": points}))
    assert "- GB/s by the bytes that a call touches, all threads: 48 KiB 410, 2.5 MiB 98." in curve
    noisy = hardware_lines(MACHINE, PEAKS.model_copy(update={**known, "is_noisy": True}))
    assert "may be too low" in noisy[-1]

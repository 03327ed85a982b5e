"""Profilers' tables under one vocabulary. The samples are written by hand from documented formats."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.evidence import METRICS
from kernelwright.targets.gpu.metrics import ROCPROF
from kernelwright.targets.gpu.profilers import choose
from kernelwright.targets.gpu.profilers.choose import function_name, profilers_here
from kernelwright.targets.gpu.profilers.nsight_compute import ncu_command, parse_ncu
from kernelwright.targets.gpu.profilers.nsight_systems import nsys_commands, parse_nsys
from kernelwright.targets.gpu.profilers.profile import GpuProfile, ProfileStatus
from kernelwright.targets.gpu.profilers.rocprof import (
    parse_rocprof_counters,
    parse_rocprof_stats,
    rocprof_commands,
)
from kernelwright.targets.gpu.profilers.table import number
from kernelwright.targets.gpu.profilers.torch_trace import idle_share, parse_torch_trace

SAMPLES = Path(__file__).parent / "samples"
PARSERS = (parse_ncu, parse_nsys, parse_rocprof_stats, parse_rocprof_counters, parse_torch_trace)


def sample(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8")


def names(profile: GpuProfile) -> list[str]:
    assert profile.status is ProfileStatus.PROFILED, profile
    assert all(kernel.facts.keys() <= METRICS.keys() for kernel in profile.kernels)
    return [kernel.name for kernel in profile.kernels]


def test_ncu_raw_page_gives_the_kernel_with_the_most_time_first() -> None:
    profile = parse_ncu(sample("ncu_raw.csv"))
    assert names(profile) == ["rows", "fill"]  # two of 40 and 60 us against one of 90
    hottest = profile.hottest
    assert hottest is not None and (hottest.launches, hottest.total_us, hottest.mean_us) == (2, 100.0, 50.0)
    assert hottest.metrics["gpu__time_duration.sum"] == 50_000 and "Block Size" not in hottest.metrics
    facts = profile.facts(calls=1)
    assert facts["gpu.kernel_us"] == 50.0 and facts["gpu.launches"] == 3
    assert facts["gpu.dram_fraction"] == pytest.approx(0.85) and facts["gpu.sm_fraction"] == pytest.approx(
        0.21
    )
    assert facts["gpu.bank_conflict_fraction"] == 0.25 and facts["aot.registers"] == 32
    assert "gpu.l2_hit_rate" not in facts  # n/a is not 0


def test_ncu_long_form_is_read_in_any_unit() -> None:
    profile = parse_ncu(sample("ncu_long.csv"))
    assert names(profile) == ["gemm"]
    assert profile.kernels[0].total_us == 152.5 and profile.kernels[0].facts["gpu.tensor_fraction"] == 0.75
    assert profile.kernels[0].metrics["sm__cycles_elapsed.avg"] == 1000


def test_counters_that_are_forbidden_leave_analytic_evidence_and_one_line() -> None:
    words = (
        "==PROF== Connected to process 1 (/usr/bin/python3)\n==ERROR== ERR_NVGPUCTRPERM - The user does not "
        "have permission to access NVIDIA GPU Performance Counters on the target device 0.\n"
    )
    profile = parse_ncu(words)
    assert profile.status is ProfileStatus.NO_PERMISSION and profile.facts(calls=1) == {}
    assert "ERR_NVGPUCTRPERM" in profile.message and "compiler's report" in profile.message
    assert "\n" not in profile.message


def test_nsys_tells_where_the_time_goes() -> None:
    profile = parse_nsys(sample("nsys.csv"))
    assert [function_name(name) for name in names(profile)] == ["rows", "fill"]
    assert profile.facts(calls=5) == {"gpu.launches": 3.0, "gpu.kernel_us": 16.0}
    assert profile.kernels[0].metrics["StdDev (ns)"] == 50


def test_rocprof_tells_where_the_time_goes() -> None:
    profile = parse_rocprof_stats(sample("rocprofv3_kernel_stats.csv"))
    assert names(profile)[0] == "rows(float*, float const*, int)"
    assert profile.facts(calls=2)["gpu.kernel_us"] == 12.0
    old = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"copy [clone .kd]",1,165,165,100.0\n'
    assert names(parse_rocprof_stats(old)) == ["copy"]


def test_rocprof_counters_are_mapped_where_they_mean_the_same() -> None:
    profile = parse_rocprof_counters(sample("rocprofv3_counters.csv"))
    assert names(profile) == ["rows", "fill"]
    hottest = profile.kernels[0]
    assert (hottest.launches, hottest.total_us) == (2, 4.0)
    assert hottest.metrics == {"OccupancyPercent": 45.0, "LDSBankConflict": 8.0}
    assert hottest.facts == {"gpu.occupancy": 0.45}
    assert {name for name, _ in ROCPROF.values()} <= METRICS.keys()


def test_torchs_trace_gives_times_and_the_gaps_between() -> None:
    profile = parse_torch_trace(sample("torch_trace.json"))
    assert names(profile) == ["rows", "fill"]
    assert profile.kernels[0].total_us == 40.0 and profile.idle_fraction == pytest.approx(0.5)
    facts = profile.facts(calls=1)
    assert (facts["aot.registers"], facts["aot.block_threads"], facts["gpu.launches"]) == (32, 256, 3)


def test_a_real_trace_without_a_gpu_has_no_kernels(tmp_path: Path) -> None:
    # lazy: only this test needs it
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        torch.ones(8).add(1)
    recorded.export_chrome_trace(str(tmp_path / "trace.json"))
    text = (tmp_path / "trace.json").read_text(encoding="utf-8")
    assert any("aten::add" in str(event.get("name")) for event in json.loads(text)["traceEvents"])
    assert parse_torch_trace(text).status is ProfileStatus.NO_KERNELS


@pytest.mark.parametrize(
    ("parse", "words"),
    [
        (parse_ncu, "==WARNING== No kernels were profiled.\n"),
        (parse_nsys, "SKIPPED: run.sqlite does not contain CUDA kernel data.\n"),
    ],
)
def test_a_run_without_kernels_is_no_failure(parse: Callable[[str], GpuProfile], words: str) -> None:
    assert parse(words).status is ProfileStatus.NO_KERNELS


@settings(max_examples=60)
@given(text=st.text(max_size=300), index=st.integers(0, len(PARSERS) - 1))
def test_any_other_output_is_answered_with_a_line(text: str, index: int) -> None:
    profile = PARSERS[index](text)
    assert profile.status is ProfileStatus.UNREADABLE and profile.facts(calls=1) == {}
    assert len(profile.message.splitlines()) == 1


@settings(max_examples=60)
@given(cut=st.integers(0, 1500), name=st.sampled_from(sorted(path.name for path in SAMPLES.iterdir())))
def test_output_that_breaks_off_is_read_as_far_as_it_goes(cut: int, name: str) -> None:
    for parse in PARSERS:
        profile = parse(sample(name)[:cut])
        assert all(kernel.launches > 0 for kernel in profile.kernels)


@given(
    spans=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1).map(
        lambda pairs: [(float(start), float(start + length)) for start, length in pairs]
    )
)
def test_the_idle_share_is_that_of_the_moments_no_span_covers(spans: list[tuple[float, float]]) -> None:
    begin, end = min(s for s, _ in spans), max(e for _, e in spans)
    idle = sum(not any(s <= t < e for s, e in spans) for t in range(int(begin), int(end)))
    assert idle_share(spans) == pytest.approx(idle / (end - begin))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("rows", "rows"),
        ("void fill<(int)4>(float *, int)", "fill"),
        (
            "void at::native::vectorized<4, at::native::(anonymous namespace)::f<float>>(int, T*)",
            "vectorized",
        ),
        ("(anonymous namespace)::k(float*)", "k"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
    ],
)
def test_tools_are_joined_by_the_functions_name(name: str, function: str) -> None:
    assert function_name(name) == function


def test_commands_name_one_kernel_and_keep_the_program_last() -> None:
    program = ["python", "run.py", "--flag"]
    command = ncu_command(program, kernel="k.1", launches=3, skip=2)
    assert command[-3:] == program and command[command.index("--launch-skip") + 1] == "2"
    pattern = command[command.index("--kernel-name") + 1].removeprefix("regex:")
    assert re.search(pattern, "k.1") and not re.search(pattern, "kx1")
    assert "--kernel-name" not in ncu_command(program)
    record, show = nsys_commands(program, Path("run.nsys-rep"))
    assert record[-3:] == program and show[-1] == "run.nsys-rep"
    times, counters = rocprof_commands(program, Path("out"))
    assert times[-4:] == counters[-4:] == ["--", *program] and "OccupancyPercent" in counters


def test_torchs_profiler_is_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert profilers_here("nvidia") == profilers_here("amd") == ("torch.profiler",)
    (tmp_path / "nsys").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "nsys").chmod(0o755)
    assert profilers_here("nvidia") == ("nsys", "torch.profiler") and set(choose.ORDER) == {"nvidia", "amd"}


def test_numbers_are_read_as_tools_print_them() -> None:
    assert [number(text) for text in ("1,234.5", " 7 %", "n/a", "", "nan", "inf")] == [
        1234.5, 7.0, None, None, None, None,
    ]  # fmt: skip

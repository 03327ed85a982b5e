"""Facts of the machine: named as the vocabulary has them, honest where unknown."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.core.evidence import METRICS
from kernelwright.machine import compiler, counters, doctor, probe, topology
from kernelwright.machine.counters import Counts


def test_facts_are_named_as_the_vocabulary_has_them() -> None:
    facts = probe.probe_machine().facts() | Counts().facts()
    assert set(facts) <= set(METRICS)
    assert facts["machine.n_threads"] == topology.n_threads() and facts["machine.bandwidth_gbps"] is None


def test_environment_names_versions_without_loading_torch() -> None:
    script = (
        "import sys; from kernelwright.machine import probe, doctor; "
        "found = probe.probe_machine().environment(); "
        "assert found['torch'] and found['compiler'] and found['memory_bytes'], found; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_environment_without_a_compiler_says_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "nosuchcompiler")
    assert probe.probe_machine().environment()["compiler"] is None
    assert probe.version_of("nosuchdistribution") is None


@pytest.mark.parametrize(("text", "expected"), [("48K", 48 << 10), ("2M", 2 << 20), ("", 0), ("512", 512)])
def test_cache_sizes_are_read(text: str, expected: int) -> None:
    assert topology._parse_size(text) == expected


def test_caches_are_positive_even_where_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "_CPU_FOLDER", tmp_path)
    found = topology.caches()
    assert found.l1 > 0 and found.l2 > found.l1 and found.l3 is None


def test_counts_are_of_user_code_or_absent_with_a_reason() -> None:
    ran: list[int] = []
    counts, found = counters.count_while(lambda: ran.append(sum(range(10_000)))), counters.availability()
    assert ran and found.available == (found.reason == "")
    assert (counts.instructions is None) != found.available
    assert counts.instructions is None or counts.instructions > 10_000


def test_ratios_of_unknown_counts_are_unknown() -> None:
    assert set(Counts(cycles=0, instructions=5).facts().values()) == {None}
    assert Counts(cycles=10, instructions=25).facts()["counters.ipc"] == 2.5


def test_doctor_finds_this_machine_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        probe, "measure_peaks", lambda _: (_ for _ in ()).throw(doctor.MachineError("no probe"))
    )
    found = {check.name: check for check in doctor.checks(tmp_path)}
    assert all(check.ok for check in found.values() if check.is_required), found
    assert not found["peaks"].ok and found["peaks"].advice == "no probe"
    assert all(check.ok or check.advice for check in found.values())


def test_doctor_without_compiler_or_cache_advises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("CXX", "nosuchcompiler")
    found = {check.name: check for check in doctor.checks(tmp_path / "file")}
    for name in ("cache folder", "compiler", "openmp"):
        assert not found[name].ok and found[name].is_required and found[name].advice
    assert compiler.KNOWN_COMPILERS[0] in found["compiler"].advice

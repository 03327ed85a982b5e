"""Hostile programs against the real referee: contained, nothing left behind, the next verdict right.

A part of src/kernelwright/corpus/hostile; ``kernelwright audit`` judges all of them.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.referee.conftest import HEAD, judge

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Status
from kernelwright.core.task import Task
from kernelwright.corpus.audit import judge_specimen
from kernelwright.corpus.load import load_corpus_task, load_specimens
from kernelwright.referee.sandbox import Tier
from kernelwright.referee.sandbox.processes import family_of
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.settings import RefereeSettings

JUDGED_HERE = (
    "48_null_pointer", "48_memory_bomb", "48_disk_filler", "48_kills_parent", "47_network",
    "48_compile_never_ends", "48_includes_secrets",
)  # fmt: skip
"""One for each thing that is limited or hidden; with the slow tests, ``tests/corpus`` judges every one."""
SPECIMENS = {specimen.name: specimen for specimen in load_specimens() if specimen.kind == "hostile"}


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A temporary directory that only this module's referee uses."""
    before, folder = tempfile.tempdir, tmp_path_factory.mktemp("temporary")
    tempfile.tempdir = str(folder)
    yield folder
    tempfile.tempdir = before


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> RefereeSettings:
    return RefereeSettings(
        cache_dir=tmp_path_factory.mktemp("cache"),
        search_timing_s=0.05,
        load_timeout_s=20.0,
        call_timeout_s=5.0,
        build_timeout_s=20.0,
        build_memory_bytes=1 << 30,
        worker_address_space_bytes=4 << 30,
        worker_total_bytes=1 << 30,
        worker_scratch_bytes=64 << 20,
    )


@pytest.fixture(scope="module")
def strict(settings: RefereeSettings, temporary: Path) -> Iterator[Referee]:
    with Referee(settings) as referee:
        yield referee


@pytest.fixture(scope="module")
def session(strict: Referee) -> Iterator[RefereeSession]:
    with strict.open(load_corpus_task("pointwise")) as session:
        yield session


def traces(temporary: Path) -> tuple[set[int], list[str], list[str]]:
    """Our processes, our temporary files, and shared memory under the names that the programs use."""
    shared = [name for name in os.listdir("/dev/shm") if name.startswith(("filler", "kernelwright"))]
    return set(family_of(os.getpid())), sorted(os.listdir(temporary)), shared


@pytest.mark.parametrize("name", JUDGED_HERE)
def test_a_hostile_program_is_contained(
    strict: Referee, session: RefereeSession, temporary: Path, name: str
) -> None:
    specimen = SPECIMENS[name]
    if specimen.sandbox is not None and specimen.sandbox.strength > strict.tier.strength:
        pytest.skip(f"needs {specimen.sandbox}, and this machine has {strict.tier}")
    before = traces(temporary)
    finding = judge_specimen(session, specimen, {})
    assert finding.is_as_expected, finding
    assert finding.control == Status.VERIFIED
    assert traces(temporary) == before


def test_every_hostile_program_is_of_the_corpus() -> None:
    assert set(JUDGED_HERE) <= set(SPECIMENS)
    assert len(SPECIMENS) >= 40


def test_the_compiler_tells_nothing_of_other_files(
    strict: Referee, session: RefereeSession, tmp_path: Path
) -> None:
    if strict.tier is Tier.LIMITS:
        pytest.skip("limits do not keep files from being read")
    (tmp_path / "key").write_text("VERYSECRETWORD", encoding="utf-8")
    source = f"""{HEAD}
CPP_SOURCE = '#include "{tmp_path}/key"'
CXX_FLAGS = ["-O0"]
class ModelNew(nn.Module):
    pass
"""
    evaluation = session.evaluate(Candidate(source=source))
    assert evaluation.status is Status.COMPILE_ERROR
    assert "VERYSECRETWORD" not in evaluation.log + evaluation.detail
    assert "No such file" in evaluation.log or "ermission denied" in evaluation.log


def test_a_compiler_that_fails_says_why(session: RefereeSession) -> None:
    source = f"""{HEAD}
CPP_SOURCE = "int f() {{ return nothing_of_that_name; }}"
CXX_FLAGS = ["-O0"]
class ModelNew(nn.Module):
    pass
"""
    evaluation = session.evaluate(Candidate(source=source))
    assert evaluation.status is Status.COMPILE_ERROR
    assert "nothing_of_that_name" in evaluation.detail


def test_the_tier_is_part_of_the_verdict(strict: Referee, session: RefereeSession) -> None:
    evaluation = judge(session, "raise ValueError")
    assert evaluation.sandbox == strict.tier


def test_nothing_is_judged_in_a_weaker_sandbox_than_required(settings: RefereeSettings) -> None:
    from dataclasses import replace

    weak = replace(settings, sandbox="limits", require_sandbox="landlock")
    with Referee(weak) as referee, pytest.raises(UserError, match="--require-sandbox landlock"):
        referee.open(Task(name="t", source="x = 1"))

"""What a family of processes holds: shared pages count once, and it stands still while they are counted."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.referee.sandbox import excess as counting
from kernelwright.referee.sandbox.excess import excess
from kernelwright.referee.sandbox.limits import ProcessLimits
from kernelwright.referee.sandbox.processes import family_of, resident_bytes, state_of

MIB = 1 << 20
HELD, N_CHILDREN = 100 * MIB, 3
FAMILY = f"""
import os, time
held = bytearray(b"x") * {HELD}
for _ in range({N_CHILDREN}):
    if os.fork() == 0:
        time.sleep(60)
print(flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def family() -> Iterator[int]:
    """A process with memory that it shares with its children."""
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        subprocess.run(["kill", "-9", *map(str, reversed(family_of(process.pid)))], check=True)


def test_pages_that_children_share_count_once(family: int, tmp_path: Path) -> None:
    limits = ProcessLimits(total_bytes=2 * HELD)
    assert sum(map(resident_bytes, family_of(family))) > N_CHILDREN * HELD
    assert excess(limits, family, str(tmp_path)) is None
    assert "its processes hold" in (excess(ProcessLimits(total_bytes=HELD // 2), family, str(tmp_path)) or "")


@pytest.mark.parametrize(("is_held", "states"), [(False, {"T"}), (True, {"S"})])
def test_it_stands_still_meanwhile_and_goes_on(
    family: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_held: bool, states: set[str]
) -> None:
    seen: list[str | None] = []
    monkeypatch.setattr(counting, "own_bytes", lambda pid: seen.append(state_of(pid)) or 0)
    assert excess(ProcessLimits(total_bytes=1), family, str(tmp_path), is_held=is_held) is None
    assert len(seen) == 1 + N_CHILDREN and set(seen) == states
    deadline = time.monotonic() + 10
    while "T" in map(state_of, family_of(family)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "T" not in map(state_of, family_of(family))


def test_a_small_family_is_not_stopped(family: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "stopped", lambda *args: pytest.fail("stopped"))
    assert excess(ProcessLimits(total_bytes=100 * HELD, processes=9), family, str(tmp_path)) is None
    assert (
        excess(ProcessLimits(processes=N_CHILDREN), family, str(tmp_path))
        == "it has 4 processes, 3 are allowed"
    )

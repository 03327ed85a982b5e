"""Commands in the sandbox: limits that end them, and nothing of them that stays, at every tier."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from tests.strangers import ends, running

from kernelwright.core.errors import UserError
from kernelwright.referee.sandbox import Tier, bubblewrap
from kernelwright.referee.session.confined import start_confined
from kernelwright.targets.gpu.inspect.run import Heard, ask_program

pytestmark = pytest.mark.slow

MEMORY = 384 << 20
"""What a command may hold in these tests, on top of what Python needs."""
HOARD = """
import os, time
for _ in range({processes}):
    if os.fork() == 0:
        kept = b"x" * {each}
        time.sleep(60)
time.sleep(60)
"""
ORPHAN = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", {mark!r}])
    os._exit(0)
os.wait()
time.sleep({stays})
"""
CALLER = """
import os, sys
from kernelwright.referee.session.confined import start_confined
log = os.open(os.devnull, os.O_WRONLY)
start_confined([sys.executable, "-c", {source!r}], {folder!r}, log, log, at_most={tier!r}).wait()
"""
TIERS = [tier for tier in Tier if tier is not Tier.BUBBLEWRAP or bubblewrap.find()]
each_tier = pytest.mark.parametrize("tier", TIERS)


@pytest.fixture
def mark() -> str:
    return f"mark-{uuid4().hex}"


def run_confined(source: str, timeout_s: float = 60.0, **terms: object) -> Heard:
    """Run a source as a confined command until it ends or its time is up."""

    def start(command: object, folder: str, answers: int, log: int) -> "subprocess.Popen[bytes]":
        begin: Callable[..., subprocess.Popen[bytes]] = partial(start_confined, **terms)  # type: ignore[arg-type]
        return begin([sys.executable, "-c", source], folder, answers, log)

    return ask_program("", b"", timeout_s, start)


@each_tier
@pytest.mark.parametrize(("processes", "each"), [(1, 2 * MEMORY), (6, MEMORY // 3)])
def test_too_much_memory_ends_all_processes(tier: Tier, processes: int, each: int) -> None:
    heard = run_confined(HOARD.format(processes=processes, each=each), memory_bytes=MEMORY, at_most=tier)
    assert heard.code == 128 + signal.SIGKILL
    assert "was killed: its processes hold" in heard.log


@each_tier
@pytest.mark.parametrize(("stays", "timeout_s"), [(0, 60.0), (600, 6.0)])
def test_orphans_end_with_the_command(tier: Tier, stays: int, timeout_s: float, mark: str) -> None:
    heard = run_confined(ORPHAN.format(mark=mark, stays=stays), timeout_s, at_most=tier)
    assert heard.code == (None if stays else 0), heard.log
    assert not running(mark)


@each_tier
def test_a_command_ends_when_who_asked_for_it_is_killed(tier: Tier, mark: str, tmp_path: Path) -> None:
    source = ORPHAN.format(mark=mark, stays=600)
    program = CALLER.format(source=source, folder=str(tmp_path), tier=tier.value)
    caller = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    try:
        while not running(mark):
            assert caller.poll() is None
    finally:
        os.kill(caller.pid, signal.SIGKILL)
        caller.wait()
    assert ends(mark)


def test_one_process_gets_no_more_address_space_than_the_limit() -> None:
    heard = run_confined("kept = bytearray(1 << 46)", memory_bytes=MEMORY)
    assert heard.code == 1 and "MemoryError" in heard.log


def test_a_weaker_sandbox_than_required_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--require-sandbox"):
        run_confined("print('ran')", require=Tier.NAMESPACES.value, at_most=Tier.LIMITS)

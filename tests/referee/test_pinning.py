"""Threads on cores of their own: which belong there, and back, in real processes."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from tests.referee.conftest import HEAD, TAIL, judge

from kernelwright.core.task import Task
from kernelwright.referee.sandbox.account import cpu_s
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.timing import measure
from kernelwright.referee.timing.measure import Measurement
from kernelwright.referee.timing.pinning import Pinning, Spell, threads_to_pin, waited_share, worked_s

TWO_BUSY_THREADS = """
import hashlib, threading
def work():
    while True:
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 20000)
threading.Thread(target=work, daemon=True).start()
work()
"""
CORES = os.sched_getaffinity(0)
N_CORES = len(CORES)
WIDE = f"""{HEAD}
N, K = {128 * N_CORES}, 1024
class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x)
{TAIL}"""
"""Work for as many threads as there are cores."""
ASKS = """
import os, time
time.sleep(0.02 if len(os.sched_getaffinity(0)) < 2 else 0.0)
return torch.tanh(x)
"""
Masks = dict[int, set[int]]


@pytest.fixture
def busy() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", TWO_BUSY_THREADS])
    deadline = time.monotonic() + 60
    while len(worked_s(process.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    yield process.pid
    process.kill()
    process.wait()


def test_busy_threads_go_to_cores_of_their_own_and_back(busy: int) -> None:
    before, began_s = worked_s(busy), cpu_s(busy)
    time.sleep(0.3)
    worked = {thread: now_s - before[thread] for thread, now_s in worked_s(busy).items()}
    threads = threads_to_pin(Spell(worked, cpu_s(busy) - began_s), n_cores=2)
    assert threads == sorted(worked) and len(threads) == 2
    pinning = Pinning()
    pinning.pin(threads)
    masks = [os.sched_getaffinity(thread) for thread in threads]
    assert all(len(mask) == 1 for mask in masks) and len(set.union(*masks)) == min(2, N_CORES)
    pinning.pin(threads)  # again: what is restored is what was before the first time
    pinning.restore()
    assert all(os.sched_getaffinity(thread) == os.sched_getaffinity(0) for thread in threads)


def test_threads_that_share_a_core_have_waited_for_it(busy: int) -> None:
    for thread in worked_s(busy):
        os.sched_setaffinity(thread, {min(CORES)})
    end = time.monotonic() + 60
    while (share := waited_share(busy)) < 0.1 and time.monotonic() < end:
        time.sleep(0.01)
    assert 0.1 <= share < 1.0


def test_of_a_process_that_is_gone_the_worst_is_taken_for_granted() -> None:
    assert waited_share(2**22 + 1) == 1.0


@pytest.fixture
def wide(referee: Referee) -> Iterator[RefereeSession]:
    with referee.open(Task(name="wide", source=WIDE)) as session:
        yield session


@pytest.fixture
def masks(monkeypatch: pytest.MonkeyPatch) -> list[Masks]:
    """Where threads may run as samples begin: the candidate's, then the reference's."""
    seen: list[Masks] = []
    take = Measurement._take_rounds

    def look(self: Measurement, sides: list[measure._Side]) -> None:
        seen.extend(masks_of(self._child(side).pid) for side in sides)
        take(self, sides)

    monkeypatch.setattr(Measurement, "_take_rounds", look)
    return seen


def masks_of(pid: int) -> Masks:
    return {thread: os.sched_getaffinity(thread) for thread in worked_s(pid)}


@pytest.mark.skipif(N_CORES < 2, reason="on one core nothing is pinned")
def test_both_sides_are_pinned_alike_until_the_replay_has_ended(
    wide: RefereeSession, masks: list[Masks], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "HINDERED", float("inf"))
    assert judge(wide, "return torch.tanh(x)").is_verified
    cores = [{thread: min(mask) for thread, mask in side.items() if len(mask) == 1} for side in masks[:2]]
    in_order = [[side[thread] for thread in sorted(side)] for side in cores]
    assert in_order == [sorted(CORES)] * 2
    assert all(os.sched_getaffinity(thread) == CORES for thread in masks[1])


def test_nothing_is_pinned_where_it_does_harm(wide: RefereeSession, masks: list[Masks]) -> None:
    assert judge(wide, ASKS).is_verified
    assert len(masks) >= 2 and all(mask == CORES for side in masks for mask in side.values())


@pytest.mark.parametrize(
    ("worked", "cpu_s", "n_cores", "pinned"),
    [
        ({1: 1.0, 2: 0.9}, 1.9, 2, [1, 2]),
        ({2: 0.9, 1: 0.5, 3: 0.01}, 1.41, 2, [1, 2]),
        ({1: 0.5, 2: 0.9, 3: 0.7}, 2.1, 2, [1, 2, 3]),
        ({1: 1.0, 2: 0.9}, 1.9, 4, []),
        ({1: 1.0, 2: 0.01}, 1.01, 2, []),
        ({1: 1.0, 2: 0.9}, 2.5, 2, []),
        ({1: 1.0}, 1.0, 1, []),
        ({}, 0.0, 2, []),
    ],
    ids=["two", "one idle", "more than cores", "fewer", "one", "ended threads", "one core", "unknown"],
)
def test_only_threads_that_need_all_cores_are_pinned(
    worked: dict[int, float], cpu_s: float, n_cores: int, pinned: list[int]
) -> None:
    assert threads_to_pin(Spell(worked, cpu_s), n_cores) == pinned


def test_what_is_gone_is_left_alone() -> None:
    gone = 2**22 + 1
    assert worked_s(gone) == {}
    pinning = Pinning()
    pinning.pin([gone])
    pinning.restore()

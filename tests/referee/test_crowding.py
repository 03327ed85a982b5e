"""Threads that share a core because another program has the rest: seen in real processes, and put apart."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from kernelwright.referee.crowding import (
    Account,
    Parting,
    account_of,
    is_crowded,
    threads_to_part,
)
from kernelwright.referee.watch import cpu_s

TWO_BUSY_THREADS = """
import hashlib, threading
def work():
    while True:
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 20000)
threading.Thread(target=work, daemon=True).start()
work()
"""
N_CORES = len(os.sched_getaffinity(0))
NOTHING = Account({}, {})


@pytest.fixture
def busy() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", TWO_BUSY_THREADS])
    deadline = time.monotonic() + 60
    while len(account_of(process.pid).worked) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    yield process.pid
    process.kill()
    process.wait()


def test_threads_on_one_core_are_crowded(busy: int) -> None:
    core = min(os.sched_getaffinity(0))
    for thread in account_of(busy).worked:
        os.sched_setaffinity(thread, {core})
    before, begin = account_of(busy), time.perf_counter()
    time.sleep(0.3)
    assert is_crowded(before, account_of(busy), time.perf_counter() - begin)


def test_busy_threads_go_to_cores_of_their_own_and_back(busy: int) -> None:
    before, began_s = account_of(busy), cpu_s(busy)
    time.sleep(0.3)
    after = account_of(busy)
    threads = threads_to_part(before, after, cpu_s(busy) - began_s, n_cores=2)
    assert sorted(threads) == sorted(after.worked)
    parting = Parting()
    parting.part(threads)
    masks = [os.sched_getaffinity(thread) for thread in threads]
    assert all(len(mask) == 1 for mask in masks) and len(set.union(*masks)) == min(2, N_CORES)
    parting.part(threads)  # again: what is restored is what was before the first time
    parting.restore()
    assert all(os.sched_getaffinity(thread) == os.sched_getaffinity(0) for thread in threads)


@pytest.mark.parametrize(
    ("worked", "cpu_s", "n_cores", "parted"),
    [
        ({1: 1.0, 2: 0.9}, 1.9, 2, [1, 2]),
        ({1: 0.5, 2: 0.9, 3: 0.01}, 1.41, 2, [2, 1]),
        ({1: 0.5, 2: 0.9, 3: 0.7}, 2.1, 2, [2, 3, 1]),
        ({1: 1.0, 2: 0.9}, 1.9, 4, []),
        ({1: 1.0, 2: 0.01}, 1.01, 2, []),
        ({1: 1.0, 2: 0.9}, 2.5, 2, []),
        ({1: 1.0}, 1.0, 1, []),
        ({}, 0.0, 2, []),
    ],
    ids=["two", "one idle", "more than cores", "fewer", "one", "ended threads", "one core", "unknown"],
)
def test_only_threads_that_need_all_cores_are_put_apart(
    worked: dict[int, float], cpu_s: float, n_cores: int, parted: list[int]
) -> None:
    before = Account(dict.fromkeys(worked, 0.0), {})
    assert threads_to_part(before, Account(worked, {}), cpu_s, n_cores) == parted


def test_a_thread_that_is_new_did_not_work_in_all_of_the_time() -> None:
    before = Account({1: 5.0, 2: 5.0}, {})
    after = Account({1: 6.0, 2: 6.0, 3: 9.0}, {})
    assert threads_to_part(before, after, 2.0, 2) == [1, 2]


def test_where_nothing_is_known_nothing_is_crowded() -> None:
    assert not is_crowded(NOTHING, NOTHING, 1.0)
    assert account_of(2**22 + 1) == NOTHING


def test_a_thread_that_is_gone_is_left_alone() -> None:
    parting = Parting()
    parting.part([2**22 + 1])
    parting.restore()

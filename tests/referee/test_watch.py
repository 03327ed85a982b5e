"""Idle work is seen from outside, in a real process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kernelwright.referee.checks.watch import Idle, Watch

PROGRAM = """
import subprocess, sys, threading
def burn():
    while True: sum(range(10000))
for line in sys.stdin:
    if line.strip() == "burn":
        threading.Thread(target=burn, daemon=True).start()
    if line.strip() == "call":
        sum(range(3_000_000))
    if line.strip() == "spawn":
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
    if line.strip() == "handle":
        import signal
        signal.signal(signal.SIGALRM, lambda *args: None)
        signal.signal(signal.SIGCONT, lambda *args: None)
    print("done", flush=True)
"""


class Other:
    """A process that does as it is told."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        self.tell("call")

    def tell(self, word: str) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@pytest.fixture
def other() -> Iterator[Other]:
    told = Other()
    yield told
    os.killpg(told.process.pid, signal.SIGKILL)
    told.process.wait()
    assert told.process.stdin and told.process.stdout
    told.process.stdin.close()
    told.process.stdout.close()


def ask_around(watch: Watch, other: Other, *, n: int, idle_s: float, word: str = "call") -> None:
    for _ in range(n):
        watch.enter()
        other.tell(word)
        watch.leave()
        _wait_for_cpu(idle_s)
    watch.enter()


def _wait_for_cpu(seconds: float) -> None:
    subprocess.run(["sleep", str(seconds)], check=True)


def test_a_process_that_works_when_asked_and_rests_otherwise_is_fine(other: Other) -> None:
    watch = Watch(other.process.pid)
    ask_around(watch, other, n=5, idle_s=0.05)
    assert watch.problem() is None
    assert watch.idle.n == 5 and watch.idle.busy_s > watch.idle.cpu_s


def test_a_thread_that_goes_on_is_seen(other: Other) -> None:
    watch = Watch(other.process.pid)
    other.tell("burn")
    for _ in range(100):
        ask_around(watch, other, n=1, idle_s=0.2, word="nothing")
        if problem := watch.problem():
            break
    assert problem is not None and "while no command ran" in problem.text


def test_a_child_process_that_goes_on_is_seen(other: Other) -> None:
    watch = Watch(other.process.pid)
    other.tell("spawn")
    for _ in range(100):
        _wait_for_cpu(0.2)
        if problem := watch.problem():
            break
    assert problem is not None and "processes that it started" in problem.text and problem.is_certain


def test_a_signal_that_is_taken_over_is_named(other: Other) -> None:
    watch = Watch(other.process.pid)
    assert watch.new_handlers() == []
    other.tell("handle")
    assert watch.new_handlers() == ["SIGALRM", "SIGCONT"]


def test_a_little_work_after_every_answer_is_allowed() -> None:
    assert not Idle(cpu_s=0.009, busy_s=0.0, n=1).is_too_much
    assert not Idle(cpu_s=0.05, busy_s=0.0, n=100).is_too_much
    assert not Idle(cpu_s=0.09, busy_s=1.0, n=3).is_too_much
    assert Idle(cpu_s=0.05, busy_s=0.1, n=10).is_too_much


def test_a_command_within_a_command_is_no_idle_work(other: Other) -> None:
    watch = Watch(other.process.pid)
    watch.enter()
    other.tell("call")
    watch.leave()
    for _ in range(4):
        watch.enter()
        other.tell("call")
        watch.enter()  # as where outputs are asked for before what surrounds the calls has ended
        watch.leave()
        watch.leave()
    assert watch.problem() is None and watch.idle.n == 4

"""The account of processor time: real processes that fork, end and are reaped by others."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kernelwright.referee.sandbox.account import CpuAccount, FamilyAccount, GroupAccount, open_account

BURNT_S = 0.2
PROGRAM = f"""
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
def burn():
    end = time.process_time() + {BURNT_S}
    while time.process_time() < end: pass
    os._exit(0)
def orphan():
    if os.fork() == 0: burn()
    os._exit(0)
for line in sys.stdin:
    word = line.strip()
    for _ in range({{"storm": 20}}.get(word, 1)):
        if word == "rest": break
        if os.fork() == 0:
            if word == "storm": os._exit(sum(range(10**6)) * 0)
            orphan() if word == "orphan" else burn()
    try:
        while True: os.wait()
    except ChildProcessError: pass
    print("done", flush=True)
"""
"""A process that adopts orphans, as the keeper does, and starts processes that end at once."""


class Starter:
    """Runs the program above."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        self.tell("rest")

    def tell(self, word: str) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@pytest.fixture
def starter() -> Iterator[Starter]:
    told = Starter()
    yield told
    with contextlib.suppress(ProcessLookupError):
        os.killpg(told.process.pid, signal.SIGKILL)
    told.process.wait()
    assert told.process.stdin and told.process.stdout
    told.process.stdin.close()
    told.process.stdout.close()


@pytest.fixture(params=["family", "group"])
def account(request: pytest.FixtureRequest, starter: Starter) -> Iterator[CpuAccount]:
    pid = starter.process.pid
    opened = open_account(pid, pid, may_group=request.param == "group")
    if request.param == "group" and not isinstance(opened, GroupAccount):
        pytest.skip("this process may not make a control group")
    yield opened
    opened.close()


@pytest.mark.parametrize("word", ["child", "orphan"])
def test_the_time_of_a_process_that_ended_is_not_lost(
    account: CpuAccount, starter: Starter, word: str
) -> None:
    before_s = account.seconds()
    starter.tell(word)
    assert account.seconds() - before_s > 0.8 * BURNT_S


def test_many_short_processes_add_up(account: CpuAccount, starter: Starter) -> None:
    before_s = account.seconds()
    starter.tell("storm")
    assert account.seconds() - before_s > 0.05


def test_rest_costs_little(account: CpuAccount, starter: Starter) -> None:
    before_s = account.seconds()
    starter.tell("rest")
    assert account.seconds() - before_s < 0.8 * BURNT_S


def test_the_account_never_becomes_less(account: CpuAccount, starter: Starter) -> None:
    starter.tell("orphan")
    before_s = account.seconds()
    os.killpg(starter.process.pid, signal.SIGKILL)
    starter.process.wait()
    assert account.seconds() >= before_s > 0.0


def test_a_process_that_is_gone_has_used_nothing() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert FamilyAccount(gone.pid).seconds() == 0.0

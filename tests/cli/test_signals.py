"""Ctrl-C, SIGTERM and SIGHUP are one interruption; a second one ends the process at once."""

import os
import signal
import subprocess
import sys

import pytest

from kernelwright.cli.signals import ENDING, interruptible

TWICE = """
import os, signal, time
from kernelwright.cli.signals import interruptible
with interruptible():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except KeyboardInterrupt:
        print("first", flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        print("never said")
"""


@pytest.mark.parametrize("number", ENDING)
def test_each_ending_signal_is_an_interruption(number: signal.Signals) -> None:
    before = signal.signal(number, signal.default_int_handler)
    try:
        with interruptible() as interruption, pytest.raises(KeyboardInterrupt):
            assert not interruption.has_come
            os.kill(os.getpid(), number)
        assert interruption.has_come
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible() as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
        assert not interruption.has_come
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_second_signal_ends_the_process_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGTERM
    assert done.stdout == "first\n"

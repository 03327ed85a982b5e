"""Samples of a real process: they lie in the code that it runs, threads and children included."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from kernelwright.machine.code_samples import CodeSamples

PROGRAM = """
import os, sys, threading, time
def burn(): sum(range(10_000_000))
for line in sys.stdin:
    if line.strip() == "thread":
        thread = threading.Thread(target=burn); thread.start(); thread.join()
    elif line.strip() == "child":
        if os.fork() == 0: burn(); os._exit(0)
        os.wait()
    elif line.strip() == "sleep":
        time.sleep(0.1)
    else:
        burn()
    print("done", flush=True)
"""


def tell(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin and process.stdout
    process.stdin.write(word + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        tell(process, "sleep")
        yield process
        process.kill()


@pytest.fixture
def samples(other: subprocess.Popen[str]) -> Iterator[CodeSamples]:
    try:
        opened = CodeSamples(other.pid)
    except OSError as error:
        pytest.skip(f"no samples here: {error}")
    yield opened
    opened.close()


@pytest.mark.parametrize("word", ["burn", "thread", "child"])
def test_work_is_sampled_wherever_it_is_done(
    other: subprocess.Popen[str], samples: CodeSamples, word: str
) -> None:
    with samples:
        tell(other, word)
    found = samples.addresses()
    assert len(found) > 20
    assert ({pid for pid, _ in found} == {other.pid}) == (word != "child")


def test_only_what_happens_inside_is_sampled(other: subprocess.Popen[str], samples: CodeSamples) -> None:
    tell(other, "burn")
    with samples:
        tell(other, "sleep")
    tell(other, "burn")
    assert len(samples.addresses()) < 20


def test_a_process_that_is_not_there_is_an_error() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(OSError):
        CodeSamples(gone.pid)

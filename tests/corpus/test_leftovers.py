"""Leftovers are seen, and what was there before is not one."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

from kernelwright.corpus.leftovers import left_behind, take_traces


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def test_nothing_new_is_nothing_left() -> None:
    assert left_behind(take_traces()) == ()


def test_a_process_that_was_there_before_is_nobodys_leftover(sleeper: subprocess.Popen[bytes]) -> None:
    assert left_behind(take_traces()) == ()


def test_a_process_that_goes_on_is_named() -> None:
    before = take_traces()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert left_behind(before, patience_s=0) == (f"process {process.pid}",)
    finally:
        process.kill()
        process.wait()
    assert left_behind(before) == ()


def test_a_file_in_a_shared_place_is_named() -> None:
    before = take_traces()
    with tempfile.NamedTemporaryFile(prefix="filler") as file:
        assert left_behind(before, patience_s=0) == (f"file {file.name}",)


def test_scratch_of_the_referee_that_is_looked_at_counts_and_that_of_others_does_not() -> None:
    before = take_traces("kernelwright-mine-")
    with (
        tempfile.TemporaryDirectory(prefix="kernelwright-mine-") as folder,
        tempfile.TemporaryDirectory(prefix="kernelwright-other-"),
    ):
        assert left_behind(before, "kernelwright-mine-", patience_s=0) == (f"file {folder}",)

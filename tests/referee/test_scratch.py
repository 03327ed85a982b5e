"""Scratch directories of an owner that was killed are removed by the next one; those of the living stay."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kernelwright.referee.sandbox.scratch import ScratchSpace, clear_up

OWNER = r"""
import sys, time
from kernelwright.referee.sandbox.scratch import ScratchSpace
space = ScratchSpace()
print(space.new_folder(), space.new_folder(), sep="\n", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_the_folders_of_a_killed_owner_go_and_those_of_a_living_one_stay(place: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            folders = [Path(owner.stdout.readline().rstrip("\n")) for _ in range(2)]
            (folders[0] / "something").write_text("kept", encoding="utf-8")
            early = ScratchSpace()
            early.new_folder()
            assert all(folder.is_dir() for folder in folders)
        finally:
            owner.send_signal(signal.SIGKILL)
            owner.wait()
    late = ScratchSpace()
    mine = Path(late.new_folder())
    assert not any(folder.exists() for folder in folders)
    assert mine.is_dir() and mine.stat().st_mode & 0o077 == 0
    early.close()
    late.close()
    assert not list(place.glob("*.lock"))


def test_what_an_owner_has_not_removed_goes_when_it_closes(place: Path) -> None:
    space = ScratchSpace()
    Path(space.new_folder(), "something").touch()
    space.close()
    assert not list(place.iterdir())


def test_other_files_are_left_alone(place: Path) -> None:
    (place / "kernelwright-notes").mkdir()
    (place / "kernelwright-deadbeef").mkdir()
    (place / "kernelwright-deadbeef.lock").touch()
    (place / "kernelwright-deadbeef-1").mkdir()
    space = ScratchSpace()
    space.new_folder()
    space.close()
    assert (place / "kernelwright-notes").exists() and (place / "kernelwright-deadbeef").exists()
    assert not (place / "kernelwright-deadbeef-1").exists()


def test_a_lock_that_was_taken_away_before_it_was_locked_is_made_anew(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    real_open = os.open

    def open_and_lose(path: str, *args: int) -> int:
        handle = real_open(path, *args)
        if not taken and str(path).endswith(".lock"):
            taken.append(path)
            clear_up()
        return handle

    space = ScratchSpace()
    monkeypatch.setattr(os, "open", open_and_lose)
    folder = Path(space.new_folder())
    monkeypatch.undo()
    assert taken and not Path(taken[0]).exists()
    assert [lock.stem for lock in place.glob("*.lock")] == [folder.name[: len("kernelwright-") + 8]]
    space.close()

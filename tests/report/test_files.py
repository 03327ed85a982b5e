"""Result files are there whole or not at all."""

import os
from pathlib import Path

import pytest

from kernelwright.core.errors import UserError
from kernelwright.report.files import write_text


def test_what_was_there_stays_until_the_new_text_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    write_text(path, "one")
    path.chmod(0o640)

    def full(self: Path, text: str, encoding: str) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        with pytest.raises(UserError, match="No space left"):
            write_text(path, "two")
    assert path.read_text() == "one"
    write_text(path, "two")
    assert path.read_text() == "two" and path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["results.json"]


def test_a_file_in_a_folder_that_takes_no_others_is_written_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    path.write_text("one")
    whole = Path.write_text

    def refused(self: Path, text: str, encoding: str) -> int:
        if self != path:
            raise PermissionError(13, "Permission denied")
        return whole(self, text, encoding=encoding)

    monkeypatch.setattr(Path, "write_text", refused)
    write_text(path, "two")
    assert path.read_text() == "two"


def test_links_and_pipes_stay_what_they_are(tmp_path: Path) -> None:
    real, link, pipe = (tmp_path / name for name in ("real.json", "link.json", "pipe"))
    link.symlink_to(real)
    write_text(link, "text")
    assert link.is_symlink() and real.read_text() == "text"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "text")
    assert os.read(reading, 10) == b"text"
    os.close(reading)

"""Libraries of another machine: in a cache they are as good as one's own."""

from pathlib import Path

import pytest

from kernelwright.core.errors import MachineError
from kernelwright.machine.built_elsewhere import put_into_cache, read_cache
from kernelwright.machine.compiler import BuiltLibrary, compile_library, library_key

SOURCE, FLAGS = 'extern "C" int answer() { return 42; }', ("-O1",)


def test_what_comes_is_found_and_not_built_again(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    compile_library(SOURCE, FLAGS, there)
    (there / "build-abc").mkdir()
    (there / "notes.txt").write_text("not of the cache")
    files = read_cache(there)
    assert sorted(files) == [f"{library_key(SOURCE, FLAGS)}.{end}" for end in ("cpp", "log", "so")]
    put_into_cache(here, files)
    found = compile_library(SOURCE, FLAGS, here)
    assert isinstance(found, BuiltLibrary) and found.cached and read_cache(here) == files


def test_what_is_there_stays(tmp_path: Path) -> None:
    name = "0" * 32 + ".so"
    put_into_cache(tmp_path, {name: b"first"})
    put_into_cache(tmp_path, {name: b"second"})
    assert read_cache(tmp_path) == {name: b"first"}
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["../" + "0" * 32 + ".so", "/etc/passwd", "0" * 32 + ".sh", "", "a/b.so"])
def test_a_name_that_is_no_library_s_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(MachineError, match="which is no name in a cache"):
        put_into_cache(tmp_path / "cache", {name: b""})
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="choose a writable cache folder"):
        put_into_cache(tmp_path / "file", {"0" * 32 + ".so": b""})

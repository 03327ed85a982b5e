"""Building: cached by content, safe for many builders, failures as data."""

import ctypes
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.errors import MachineError
from kernelwright.machine import compiler
from kernelwright.machine.compiler import (
    BuiltLibrary,
    CompileFailure,
    compile_library,
    find_compiler,
    library_key,
    loader_name,
    name_for_loader,
)

FLAGS = ("-O1",)
ANSWER = 'extern "C" int answer() { return 42; }'
ENDLESS = "#define A(x) x x x x x x x x\nint main() { A(A(A(A(A(A(A(A(;)))))))) }"


def build(source: str, folder: Path, timeout_s: float = 60) -> BuiltLibrary:
    built = compile_library(source, FLAGS, folder, timeout_s)
    assert isinstance(built, BuiltLibrary)
    return built


def test_library_loads_and_is_cached_under_its_key(tmp_path: Path) -> None:
    first, second = build(ANSWER, tmp_path / "new"), build(ANSWER, tmp_path / "new")
    assert ctypes.CDLL(str(first.path)).answer() == 42
    assert (first.cached, second.cached) == (False, True) and first.path == second.path
    assert first.path.stem == library_key(ANSWER, FLAGS) and len(first.path.stem) == 32
    assert {path.suffix for path in (tmp_path / "new").iterdir()} == {".so", ".cpp", ".log"}


def test_flags_are_part_of_the_key(tmp_path: Path) -> None:
    other = compile_library(ANSWER, ("-O2",), tmp_path)
    assert isinstance(other, BuiltLibrary) and other.path != build(ANSWER, tmp_path).path


def test_refused_source_is_a_failure_with_the_place(tmp_path: Path) -> None:
    failure = compile_library("int x = ;", FLAGS, tmp_path)
    assert isinstance(failure, CompileFailure) and not failure.timed_out
    assert "kernel.cpp:1:9: error" in failure.log
    assert list(tmp_path.iterdir()) == []


def test_endless_compile_is_killed_with_its_children(tmp_path: Path) -> None:
    started = time.monotonic()
    failure = compile_library(ENDLESS, FLAGS, tmp_path, timeout_s=0.3)
    assert isinstance(failure, CompileFailure) and failure.timed_out and "0.3 s" in failure.log
    assert time.monotonic() - started < 30
    assert list(tmp_path.iterdir()) == []
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=False).stdout
    assert not any("cc1plus" in line and str(tmp_path) in line for line in running.splitlines())


def test_builders_at_once_all_get_the_library(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from kernelwright.machine.compiler import *; "
        "sys.exit(not isinstance(compile_library(sys.argv[1], ('-O1',), Path(sys.argv[2])), BuiltLibrary))"
    )
    command = [sys.executable, "-c", script, ANSWER, str(tmp_path)]
    builders = [subprocess.Popen(command) for _ in range(4)]
    assert [builder.wait(timeout=60) for builder in builders] == [0] * 4
    assert len(list(tmp_path.glob("*.so"))) == 1 and not list(tmp_path.glob("build-*"))


def test_chosen_compiler_may_have_a_wrapper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "env g++")
    assert find_compiler().command[0] == "env" and find_compiler().path.name == "g++"


@pytest.mark.parametrize("chosen", ["nosuchcompiler", sys.executable + "-nosuch", "false"])
def test_chosen_compiler_that_does_not_run_is_named(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", chosen)
    with pytest.raises(MachineError, match=chosen.rpartition("/")[2]) as caught:
        find_compiler()
    assert "install" in str(caught.value) and "\n" not in str(caught.value)


def test_no_compiler_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match=r"apt install g\+\+"):
        compile_library(ANSWER, FLAGS, tmp_path)


def test_unwritable_cache_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(MachineError, match="cannot build in"):
        compile_library(ANSWER, FLAGS, tmp_path / "file" / "cache")


def test_clang_is_asked_in_its_own_words() -> None:
    clang = compiler.Compiler(path=Path("/usr/bin/clang++"), version="Debian clang version 19.1.4")
    assert clang.is_clang and "-Rpass=loop-vectorize" in clang.report_flags("r")


def test_a_flag_at_the_end_of_a_source_is_no_flag() -> None:
    one, other = ("int x;\n-O3", ("-w",)), ("int x;", ("-O3", "-w"))
    assert library_key(*one) != library_key(*other)
    assert loader_name(*one) == loader_name(
        *other
    )  # what candidates compute, so it may not name a file alone


@given(st.lists(st.text(max_size=4), min_size=1, max_size=4), st.lists(st.text(max_size=4), min_size=1))
def test_different_parts_have_different_keys(one: list[str], other: list[str]) -> None:
    assert (library_key(one[0], one[1:]) == library_key(other[0], other[1:])) == (one == other)


def test_a_loader_finds_its_library_in_a_folder_of_its_own(tmp_path: Path) -> None:
    built = compile_library(ANSWER, FLAGS, tmp_path)
    assert isinstance(built, BuiltLibrary)
    named = name_for_loader(built.path, ANSWER, FLAGS)
    assert named == name_for_loader(built.path, ANSWER, FLAGS)
    assert named.name == f"{loader_name(ANSWER, FLAGS)}.so" and list(named.parent.iterdir()) == [named]
    assert named.read_bytes() == built.path.read_bytes()

"""A build node compiles for machines that are like it, confined, and leaves nothing behind."""

import pytest

from kernelwright.api.building import BUILD, build_for_another
from kernelwright.machine.built_elsewhere import toolchain
from kernelwright.machine.compiler import library_key
from kernelwright.remote.fleet.farm import BuildOrder, BuiltFiles
from kernelwright.remote.fleet.records import WorkerVersion

TEXT = 'extern "C" int answer() { return 42; }'
PROGRAM = f"CXX_FLAGS = ['-O1']\nCPP_SOURCE = {TEXT!r}\n"
ORDER = BuildOrder(
    bring=BUILD, program=PROGRAM, toolchain=toolchain(), version=WorkerVersion.here(), limit_s=60.0
)


@pytest.mark.slow
def test_what_it_compiles_has_the_names_of_the_other_machine_s_cache() -> None:
    built = build_for_another(ORDER)
    assert built.problem == ""
    assert sorted(built.files) == [f"{library_key(TEXT, ['-O1'])}.{end}" for end in ("cpp", "log", "so")]


@pytest.mark.slow
@pytest.mark.parametrize("program", ["x = 1", PROGRAM.replace("int answer", "int int answer")])
def test_where_no_library_comes_of_it_the_other_machine_finds_out(program: str) -> None:
    assert build_for_another(ORDER.model_copy(update={"program": program})) == BuiltFiles()


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"toolchain": "other"}, "another processor or another compiler"),
        ({"version": WorkerVersion(version="0.0.7", digest="")}, "another version of Kernelwright"),
        ({"require_sandbox": "no such tier"}, "no such tier"),
    ],
)
def test_a_machine_that_is_unlike_or_too_weak_says_so(changed: dict[str, object], problem: str) -> None:
    built = build_for_another(ORDER.model_copy(update=changed))
    assert problem in built.problem and not built.files

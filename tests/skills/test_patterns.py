"""The worked patterns are code: C++ compiles without warnings, Python runs."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kernelwright.skills.load import load_skills

SKILLS = load_skills()
FLAGS = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-pass-failed", "-fopenmp", "-mavx512f"]


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.+?)^```$", SKILLS[name].body, re.M | re.S)


@pytest.mark.skipif(
    shutil.which("g++") is None or platform.machine() != "x86_64", reason="needs g++ and x86 intrinsics"
)
def test_cpp_patterns_compile(tmp_path: Path) -> None:
    sources = []
    for name in SKILLS:
        for number, block in enumerate(blocks(name, "cpp")):
            source = tmp_path / f"{name}_{number}.cpp"
            source.write_text(block, encoding="utf-8")
            sources.append(str(source))
    assert sources
    done = subprocess.run(["g++", "-fsyntax-only", *FLAGS, *sources], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [name for name in SKILLS if blocks(name, "python")])
def test_python_patterns_define_a_function(name: str) -> None:
    for block in blocks(name, "python"):
        scope: dict[str, object] = {}
        exec(compile(block, f"{name}.md", "exec"), scope)
        assert any(callable(value) for key, value in scope.items() if not key.startswith("__"))

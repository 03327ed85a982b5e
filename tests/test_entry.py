"""The program's entry on systems that it does not run on."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_another_system_gets_one_line(system: str) -> None:
    code = f"import sys; sys.platform = {system!r}; from kernelwright.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: Kernelwright runs on Linux only") and system in line


def test_this_system_runs() -> None:
    done = subprocess.run([sys.executable, "-m", "kernelwright", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("kernelwright ")

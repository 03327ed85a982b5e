"""Make a virtual environment with torch and Kernelwright in it. Needs Python >= 3.11 only.

Usage: python3 scripts/setup_environment.py [FOLDER]

torch: one that the given Python already has is used as it is. Otherwise version 2.13.0 is installed,
as a CPU build where pip can find one, so that a machine without a GPU does not pull gigabytes of CUDA.
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

TORCH = "2.13.0"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def main() -> int:
    """Create the environment; returns an exit code."""
    if sys.version_info < (3, 11):  # noqa: UP036 - run by whatever python3 is there
        return _fail(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        return _fail("no C++ compiler found: install g++ (Debian, Ubuntu: apt install g++)")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".venv")
    has_torch = importlib.util.find_spec("torch") is not None
    options = ["--system-site-packages"] if has_torch else []
    if subprocess.run([sys.executable, "-m", "venv", *options, str(folder)]).returncode != 0:
        return _fail("python -m venv failed (Debian, Ubuntu: apt install python3-venv)")
    python = folder / "bin" / "python"
    if not has_torch and not _install_torch(python):
        return _fail(f"torch {TORCH} could not be installed; see the message above")
    if _pip(python, "--editable", ".") != 0:
        return _fail("pip install of Kernelwright failed; see the message above")
    return 0


def _install_torch(python: Path) -> bool:
    """Try a CPU build from the configured sources, then PyTorch's CPU index, then any build."""
    if shutil.which("nvidia-smi") is None:
        if _pip(python, f"torch=={TORCH}+cpu", quiet=True) == 0:
            return True
        if _pip(python, f"torch=={TORCH}+cpu", "--extra-index-url", CPU_INDEX, quiet=True) == 0:
            return True
    return _pip(python, f"torch=={TORCH}") == 0


def _pip(python: Path, *arguments: str, quiet: bool = False) -> int:
    say(f"pip install {' '.join(arguments)}")
    command = [str(python), "-m", "pip", "install", "--quiet", *arguments]
    return subprocess.run(command, stderr=subprocess.DEVNULL if quiet else None).returncode


def _fail(message: str) -> int:
    say(f"error: {message}")
    return 2


def say(text: str) -> None:
    """Write one line of progress to stderr."""
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())

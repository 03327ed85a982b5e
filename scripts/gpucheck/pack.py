"""Brings along what the check needs beside torch, Triton and numpy, for a machine without a network."""

import json
import os
import platform
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

LEFT_TO_THEM = ("numpy", "torch", "triton")
"""Never brought unasked: the other machine's own belong together."""
TESTING = ("pytest>=8", "hypothesis>=6.100")
ABOUT = "packed.json"


class PackError(Exception):
    """The packages cannot be brought together, or are not for this Python; one line."""


def requirements(root: Path, include: Sequence[str] = ()) -> list[str]:
    """Return what is packed: the project's own dependencies without those left to them, and the tests'."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [one for one in project["dependencies"] if _name(one) not in LEFT_TO_THEM]
    return [*wanted, *TESTING, *include]


def _name(requirement: str) -> str:
    return requirement.partition(">")[0].partition("=")[0].partition("<")[0].partition("[")[0].strip().lower()


def pack(folder: Path, root: Path, python: str, target: str, include: Sequence[str] = ()) -> Iterator[str]:
    """Unpack wheels for a Python (``3.12``) and a platform into a folder; yields lines of progress.

    Raises:
        PackError: the folder holds something else, or pip fails.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / ABOUT).exists():
        raise PackError(f"{folder} holds something else; name a folder that is new or empty")
    wanted = requirements(root, include)
    yield f"packing {', '.join(wanted)} for Python {python} on {target} ..."
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile",
        "--upgrade", "--target", str(folder), "--python-version", python, "--platform", target,
        "--implementation", "cp", "--only-binary=:all:", *wanted,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise PackError(f"pip ended with {done.returncode}: {' '.join((lines or ['no words'])[-1].split())}")
    packages = sorted(path.name.removesuffix(".dist-info") for path in folder.glob("*.dist-info"))
    about = {"python": python, "platform": target, "packages": packages}
    (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    yield f"{folder}: {len(packages)} packages, {size / 2**20:.0f} MiB"
    there = f"scripts/gpu-check --packages {folder.name} --kernelbench KernelBench"
    yield f"take there this folder, the repository and a checkout of KernelBench, and run {there}"


def environment_with(packages: Path | None, root: Path, out: Path) -> dict[str, str]:
    """Return the environment of every command: our sources, the packages, a cache and a store in ``out``.

    Plugins of pytest's that happen to be there are not loaded.

    Raises:
        PackError: no such folder, or it was packed for another Python.
    """
    places = [str(root), str(root / "src"), str(root / "scripts")]
    if packages is not None:
        places.append(str(_checked(packages)))
    before = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*places, *([before] if before else [])]),
        "PYTHONUNBUFFERED": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "KERNELWRIGHT_CACHE": str(out / "cache"),
        "KERNELWRIGHT_DATA": str(out / "data"),
        "KERNELWRIGHT_STORE": str(out / "runs.db"),
    }


def _checked(packages: Path) -> Path:
    try:
        about = json.loads((packages / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PackError(f"{packages} was not made by --pack: it has no {ABOUT} that can be read") from error
    here = ".".join(platform.python_version_tuple()[:2])
    if about.get("python") != here:
        raise PackError(f"{packages} is for Python {about.get('python')}, this is {here}: pack for {here}")
    return packages.resolve()

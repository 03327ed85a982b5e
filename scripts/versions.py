"""Try Kernelwright under other versions of Python and torch, each pair in an environment of its own.

A pair is installed, makes the demo's module faster and runs the tests. One that cannot be installed says why.
Rows are kept in ``--out`` as they come, so that pairs of several machines stand in one table. A pair of a
Python and a torch in the table that was not tried stands there as untried.

torch comes from the configured package sources: builds for CUDA are gigabytes. Of the development tools all
are installed but triton, which comes with such a build or not at all. An environment that is there already is
used as it is: ``WORK/python3.11.2-torch2.7.0`` with a file ``.ready`` in it.

Usage: python scripts/versions.py [--python python3.13 ...] [--torch 2.7.0 ...] [--tests tests/ir ...]
       [--jobs N] [--work out/versions] [--out FILE]
Exit code 1 where a pair failed, 0 where all passed or could not be installed.
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
OUT = ROOT / "benchmarks" / "results" / "versions.json"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NOT_OURS_TO_CHOOSE = "triton=="
"""torch pins the triton that it works with."""
DEMO = "examples/gelu_layernorm.py"
LAST_LINES = 3
COUNTS = ("passed", "skipped")
UNTRIED = "untried"

Row = dict[str, Any]


class Failed(Exception):
    """A step of a pair failed; the text says which, and how it ended."""


def run(step: str, *command: str | Path) -> str:
    """Return what the command printed; raises `Failed` with its last lines."""
    done = subprocess.run([str(c) for c in command], cwd=ROOT, env=ours(), text=True, capture_output=True)
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        told = [line for line in lines if line.startswith("ERROR:")] or lines  # pip's warnings name places
        raise Failed(f"{step}: " + " / ".join(line[:200] for line in told[-LAST_LINES:]))
    return done.stdout


def ours() -> dict[str, str]:
    """Return the environment in which this checkout is imported, whatever was installed."""
    return os.environ | {"PYTHONPATH": str(ROOT / "src")}


def oldest_torch() -> str:
    """Return the oldest torch that pyproject.toml admits."""
    wanted = next(r for r in PROJECT["dependencies"] if r.startswith("torch>="))
    numbers = wanted.removeprefix("torch>=").split(".")
    return ".".join([*numbers, "0"][:3])


def development_tools() -> list[str]:
    """Return the requirements of the extra `dev`, without the one that torch chooses."""
    return [r for r in PROJECT["optional-dependencies"]["dev"] if not r.startswith(NOT_OURS_TO_CHOOSE)]


def installed(python: str, torch: str, folder: Path) -> Path:
    """Return the Python of an environment that holds the pair and us; raises `Failed`."""
    inside = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        run("venv", python, "-m", "venv", folder)
        pip = (inside, "-m", "pip", "install", "--quiet")
        try:
            run("torch", *pip, f"torch=={torch}+cpu")
        except Failed:
            run("torch", *pip, f"torch=={torch}")
        run("install", *pip, "--editable", ".", *development_tools())
        (folder / ".ready").touch()
    return inside


def tested(inside: Path, report: Path, tests: list[str], jobs: str) -> Row:
    """Run the tests; returns how many passed, were skipped and failed, the failed ones by name.

    Raises:
        Failed: they did not come to their end.
    """
    options = ["-q", "-n", jobs, "--dist", "loadfile", f"--junit-xml={report}"]
    command: list[str | Path] = [inside, "-m", "pytest", *options, *tests]
    code = subprocess.run(command, cwd=ROOT, env=ours(), stdout=subprocess.DEVNULL).returncode
    if code not in (0, 1):
        raise Failed(f"tests: pytest ended with code {code}")
    cases = list(ET.parse(report).iter("testcase"))
    failed = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = sum(c.find("skipped") is not None for c in cases)
    return {
        "passed": len(cases) - len(failed) - skipped,
        "skipped": skipped,
        "failed": sorted(f"{c.get('classname')}::{c.get('name')}" for c in failed),
    }


def try_pair(python: str, torch: str, tests: list[str], jobs: str, work: Path) -> Row:
    """Return the row of one pair."""
    row: Row = {"date": datetime.date.today().isoformat(), "python": python, "torch": torch, "tests": tests}
    try:
        row["python"] = run(
            "python", python, "-c", "import platform; print(platform.python_version())"
        ).strip()
    except (Failed, OSError):  # pyenv has a name for a Python that may not be run
        return row | {"python": Path(python).name.removeprefix("python"), "outcome": UNTRIED}
    folder = work / f"python{row['python']}-torch{torch}"
    try:
        inside = installed(python, torch, folder)
    except Failed as failure:
        return row | {"outcome": "cannot be installed", "why": str(failure)}
    row["torch"] = run("version", inside, "-c", "import torch; print(torch.__version__)").strip()
    try:
        demo = ("optimize", DEMO, "--store", folder / "demo.db")
        run("demo", inside, "-m", "kernelwright", *demo)
        row |= tested(inside, folder / "tests.xml", tests, jobs)
    except Failed as failure:
        return row | {"outcome": "failed", "why": str(failure)}
    return row | {"outcome": "failed" if row["failed"] else "passed"}


def keep(row: Row, out: Path) -> None:
    """Add the row, in place of an earlier one of the same pair, and write the table beside it.

    What was tried of some Python or torch is listed with every other one: as untried, where it was not.
    """
    rows: list[Row] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else []
    rows = [r for r in rows if (r["python"], r["torch"]) != (row["python"], row["torch"])] + [row]
    pythons, torches = zip(*map(pair, rows), strict=True)
    rows = [r for r in rows if r["outcome"] != UNTRIED]
    left = set(product(pythons, torches)) - set(map(pair, rows))
    rows += [{"date": row["date"], "python": p, "torch": t, "tests": [], "outcome": UNTRIED} for p, t in left]
    rows.sort(key=lambda r: (numbers(r["python"]), numbers(r["torch"])))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(table(rows), encoding="utf-8")


def pair(row: Row) -> tuple[str, str]:
    """Return the Python and the torch of a row, whatever the torch was built for."""
    return row["python"], row["torch"].partition("+")[0]


def numbers(version: str) -> list[int]:
    """Return what orders versions: 2.14 comes after 2.6."""
    return [int(number) for number in re.findall(r"\d+", version)]


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "# Versions tried",
        "",
        "Made by `python scripts/versions.py`: install, the demo, the tests.",
        "",
        "| Python | torch | outcome | tests | passed | skipped | failed | date |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        counted = "passed" in row
        told = " | ".join(
            [" ".join(row["tests"]) if counted else "-", *(str(row.get(k, "-")) for k in COUNTS)]
        )
        outcome = row["outcome"] + (f": {row['why']}" if "why" in row else "")
        failed = ", ".join(f"`{name}`" for name in row.get("failed", [])) or "-"
        cells = (row["python"], row["torch"], outcome, told, failed, row["date"])
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Try every pair; returns an exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="default: what runs this")
    parser.add_argument(
        "--torch", nargs="+", default=[oldest_torch()], help="default: %(default)s, the oldest"
    )
    parser.add_argument("--tests", nargs="+", default=["tests"], help="default: all of the quick set")
    parser.add_argument("--jobs", default="auto", help="tests side by side, 0: in one process; default: auto")
    parser.add_argument("--work", type=Path, default=ROOT / "out" / "versions")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    outcomes = []
    for python in options.python:
        for torch in options.torch:
            sys.stderr.write(f"{python}, torch {torch} ...\n")
            row = try_pair(python, torch, options.tests, options.jobs, options.work.resolve())
            keep(row, options.out)
            outcomes.append(row["outcome"])
            sys.stderr.write(f"  {row['outcome']}{': ' + row['why'] if 'why' in row else ''}\n")
    return int("failed" in outcomes)


if __name__ == "__main__":
    sys.exit(main())

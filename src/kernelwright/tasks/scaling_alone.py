"""Reduces a task's sizes in a process of its own: ``python -m kernelwright.tasks.scaling_alone FD``.

Reads one JSON object from stdin: ``source``, ``max_ms``, ``max_mb``. Writes ``{"sizes": ...}`` to the
descriptor: globals to rebind, null where nothing fits. Capturing a graph runs the task's code, so a
stranger's task is captured here, in the sandbox.
"""

import json
import os
import sys
from pathlib import Path

from kernelwright.core.errors import CaptureError, UserError
from kernelwright.core.task import Literal_, Workload
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.kernelbench import load_task
from kernelwright.tasks.scaling import scaled_overrides

SECOND_TRY = 10.0
"""Where no sizes are within both limits, those within so many times as much are tried: some models have more
weights than that, however small their inputs."""


def fitting_overrides(path: Path, *, max_ms: float, max_mb: float) -> dict[str, Literal_] | None:
    """Return globals to rebind so that a task fits; None where nothing fits.

    None are to be rebound where no estimate can be had, or the file is at fault.
    """
    try:
        for factor in (1.0, SECOND_TRY):
            sizes = scaled_overrides(path, max_ms=max_ms * factor, max_bytes=int(max_mb * factor * 1e6))
            if sizes is not None:
                return sizes
        capture_task(load_task(path), Workload())
    except (UserError, CaptureError):
        return {}
    return None


def main() -> None:
    """Answer the question on stdin."""
    answers, asked = int(sys.argv[1]), json.loads(sys.stdin.read())
    path = Path("task.py").absolute()
    path.write_text(asked["source"], encoding="utf-8")
    sizes = fitting_overrides(path, max_ms=asked["max_ms"], max_mb=asked["max_mb"])
    os.write(answers, json.dumps({"sizes": sizes}).encode() + b"\n")
    os._exit(0)


if __name__ == "__main__":
    main()

"""The process of one job: ``python -m kernelwright.mcp.child``.

Reads one JSON line from stdin, the job; writes JSON lines to what was stdout: ``{"say": TEXT}`` while it
works, at the end ``{"answer": {...}}`` or, as a ``RequestProblem``, ``{"problem": {...}}``. Ends when stdin
does, so that no job outlives the server.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from kernelwright.core.errors import KernelwrightError
from kernelwright.core.traces import write_trace
from kernelwright.remote.problems import problem_of
from kernelwright.remote.records import RequestProblem
from kernelwright.report.files import json_line
from kernelwright.settings import Settings

GRACE_S = 20.0
"""Seconds that a job has to close its run after the server has gone."""
INTERRUPTED = 130


def main() -> None:
    """Carry out the job that stdin describes."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else writes to stdout must not look like an answer
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    try:
        _carry_out(job, answers)
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    os._exit(0)  # nothing is left to be closed, and torch takes its time


def _carry_out(job: dict[str, Any], answers: IO[str]) -> None:
    def write(document: dict[str, Any]) -> None:
        answers.write(json_line(document))
        answers.flush()

    try:
        # lazy: loads torch
        from kernelwright.mcp.jobs import JOBS, JobContext

        call = JobContext(_settings(job["settings"]), lambda text: write({"say": text}))
        write({"answer": JOBS[job["name"]](call, **job["arguments"])})
    except KernelwrightError as error:
        write({"problem": problem_of(error)})
    except Exception as error:  # the border: a defect of ours becomes a line and a file
        says = f"{type(error).__name__}: {error}; a defect of ours, traceback in {write_trace(error)}"
        write({"problem": RequestProblem(kind="machine", line=" ".join(says.split()))})


def _settings(given: dict[str, Any]) -> Settings:
    return Settings(**{**given, "cache_dir": Path(given["cache_dir"]), "data_dir": Path(given["data_dir"])})


def _end_with_the_server() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE_S)
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()

"""Errors as they cross the border between processes, and back."""

import logging

from kernelwright.core.errors import KernelwrightError, MachineError, TaskError, UserError
from kernelwright.remote.lines import one_line
from kernelwright.remote.records import RequestProblem

log = logging.getLogger(__name__)


def problem_of(error: Exception) -> RequestProblem:
    """Return what is told of an error; the traceback of a defect of ours goes to the log."""
    if isinstance(error, TaskError):
        return RequestProblem(kind="task", line=one_line(error))
    if isinstance(error, UserError):
        return RequestProblem(kind="user", line=one_line(error))
    if isinstance(error, KernelwrightError):
        return RequestProblem(kind="machine", line=one_line(error))
    log.error("a request failed through a defect of ours", exc_info=error)
    line = f"{one_line(error)}; a defect of ours, the service's log has the traceback"
    return RequestProblem(kind="machine", line=line)


def error_of(problem: RequestProblem) -> KernelwrightError:
    """Return the error that a problem was on the other side."""
    kinds = {"task": TaskError, "user": UserError, "machine": MachineError}
    return kinds[problem.kind](problem.line)

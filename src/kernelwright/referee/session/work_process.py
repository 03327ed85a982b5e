"""Counts what a task must do at least, in a host of its own: the parent loads neither torch nor the task."""

from dataclasses import replace

from pydantic import ValidationError

from kernelwright.core.errors import TaskError
from kernelwright.core.task import Task
from kernelwright.machine.probe import version_of
from kernelwright.referee.session.host_process import HostProcess
from kernelwright.referee.session.launcher import Launcher
from kernelwright.referee.settings import RefereeSettings
from kernelwright.targets.device import PROCESSOR
from kernelwright.tasks.counted import CountedWork, find_counted, keep_counted


def count_work(launcher: Launcher, settings: RefereeSettings, task: Task) -> CountedWork:
    """Return what was kept of the task, else count; a task that cannot be run has no work.

    Raises:
        MachineError: a process cannot be started.
    """
    torch = version_of("torch")
    is_kept = not settings.confine_references  # what a stranger's task says of itself is for this once
    known = find_counted(task, settings.cache_dir, torch) if is_kept else None
    if known is not None:
        return known
    host = HostProcess(launcher, replace(settings, device=PROCESSOR.name), task, task.workloads[0])
    try:
        counted = CountedWork.model_validate(host.call("work", task=task.model_dump_json()))
    except (TaskError, ValidationError):
        return CountedWork()  # admission has the words for it
    finally:
        host.child.kill()
    if is_kept:
        keep_counted(task, settings.cache_dir, torch, counted)
    return counted

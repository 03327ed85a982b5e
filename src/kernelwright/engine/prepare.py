"""Turn a task into a problem: graphs, floors, the machine's peaks."""

from pathlib import Path

from kernelwright.agents.problem import Problem
from kernelwright.core.errors import CaptureError
from kernelwright.core.roofline import Floor, floor
from kernelwright.core.run import RunSpec
from kernelwright.devices.cpu import machine_facts, measure_peaks
from kernelwright.tasks.capture import Captured, capture_task
from kernelwright.tasks.work import count_work


def prepare(spec: RunSpec, cache_dir: Path) -> tuple[Problem, str | None]:
    """Return the problem, and why it could not be captured (None when it could)."""
    peaks = measure_peaks(cache_dir)
    captured: dict[str, Captured] = {}
    floors: dict[str, Floor] = {}
    reason: str | None = None
    try:
        for workload in spec.task.workloads:
            captured[workload.name] = capture_task(spec.task, workload)
            floors[workload.name] = floor(count_work(captured[workload.name]), peaks)
    except CaptureError as error:
        captured, floors, reason = {}, {}, str(error)
    problem = Problem(
        task=spec.task,
        target=spec.target,
        captured=captured,
        floors=floors,
        peaks=peaks,
        machine=machine_facts(peaks),
    )
    return problem, reason

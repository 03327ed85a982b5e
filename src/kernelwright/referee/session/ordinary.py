"""What an ordinary process adds to a final: peak memory, and the choice of what is timed there.

The referee's other processes keep all memory that they ever took. A user's process does not: there an output
of 32 MiB or more is fresh pages in every call, which can turn a gain into a loss. So a final also times what
is delivered in processes that have malloc as it is by default. Calls, clock and checks are those of
every pair.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Check, OrdinaryResult, PeakMemory, Status, WorkloadResult
from kernelwright.core.policy import Policy
from kernelwright.core.task import Task, Workload
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.input_samples import InputSample
from kernelwright.referee.session.launcher import Child
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.timing.measure import EAGER
from kernelwright.referee.timing.statistics import Samples, conclude

SLACK_BYTES = 16 << 20
"""Difference in peak memory that is always allowed: code that is loaded, stacks, pages of the heap."""
RESET_PEAK = "5"
"""Written to ``/proc/PID/clear_refs``: the peak is what is resident now (proc(5))."""


@dataclass(frozen=True)
class TimedProgram:
    """What a worker loads."""

    source: str
    is_module: bool
    """It makes the module as it is delivered, with the original in it."""
    shown: tuple[Path, ...] = ()
    """Files that it reads: those of a live module."""


def programs(
    settings: RefereeSettings, candidate: Candidate, task: Task, workload: Workload
) -> tuple[TimedProgram, ...]:
    """Return what can be timed, the best first: the delivered module, then ``ModelNew`` alone.

    The module cannot be made in a confined process where its class is in files of the user's.
    """
    alone = TimedProgram(candidate.program, is_module=False)
    if settings.delivered is None:
        return (alone,)
    source = settings.delivered.write(candidate, task, workload, settings.policy)
    shown = () if task.artifact is None else (Path(task.artifact),)
    return TimedProgram(source, is_module=True, shown=shown), alone


def peak_memory(worker: CandidateProcess, samples: Sequence[InputSample]) -> PeakMemory | None:
    """Measure both sides; None where the system does not tell.

    ``worker`` has made no call yet, so what its module keeps from its first call on counts. The referee holds
    more outputs of earlier calls than a caller would; all but one are left out on both sides.
    """
    reference = worker.reference
    sets = reference.first_sets
    for slot, sample in zip(sets, samples, strict=False):
        worker.fill(slot, sample.inputs)
        reference.fill(slot, sample.inputs)
    worker.load_state(samples[0].state)
    reference.load_state(samples[0].state)
    reference.forget_last()
    kept = worker.child.queue.ring

    def call_worker() -> None:
        worker.run(sets[:1])
        worker.time(sets, kept + 1)

    ours = _growth(worker.child, worker.trim, call_worker)
    theirs = _growth(
        reference.child, lambda: reference.call("trim"), lambda: reference.make_calls(sets, kept + 2)
    )
    if ours is None or theirs is None:
        return None
    layout = reference.layout
    always = layout.args_bytes + layout.state_bytes - (kept - 1) * reference.output_bytes
    least = layout.args_bytes + layout.state_bytes + reference.output_bytes
    return PeakMemory(delivered_bytes=max(ours + always, least), original_bytes=max(theirs + always, least))


def _growth(child: Child, trim: Callable[[], object], call: Callable[[], object]) -> int | None:
    """Return by how much a process's memory grew at most while calls were made."""
    trim()
    if not _reset_peak(child.pid):
        return None
    before = _resident(child.pid, "VmRSS")
    call()
    after = _resident(child.pid, "VmHWM")
    return None if before is None or after is None else max(after - before, 0)


def _reset_peak(pid: int) -> bool:
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text(RESET_PEAK, encoding="ascii")
        return True
    return False


def _resident(pid: int, name: str) -> int | None:
    """Return a size in bytes of ``/proc/PID/status``."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return int(value.split()[0]) << 10
    return None


def require_memory(memory: PeakMemory | None, policy: Policy) -> None:
    """Raise Failure where what is delivered takes more memory than the policy allows."""
    if memory is None or memory.delivered_bytes <= policy.peak_memory * memory.original_bytes + SLACK_BYTES:
        return
    detail = (
        f"peak memory is {memory.ratio:.2f} times the original's ({memory.delivered_bytes / 2**20:.0f} MiB "
        f"against {memory.original_bytes / 2**20:.0f} MiB); {policy.peak_memory:g} times are allowed "
        "(--peak-memory)"
    )
    raise Failure(Status.REJECTED, detail, check=Check.MEMORY)


def ordinary_result(
    program: TimedProgram,
    pinned: WorkloadResult,
    pairs: Sequence[Samples],
    alone: Sequence[Samples],
    memory: PeakMemory | None,
) -> OrdinaryResult:
    """Return what all pairs of ordinary processes show of a workload; ``pinned`` has its floor."""
    result = conclude(pinned.workload, pairs)
    floors = {"floor_ms": pinned.floor_ms, "floor_was_ms": pinned.floor_was_ms}
    return OrdinaryResult(
        timed="module" if program.is_module else "kernel",
        all_threads=result.model_copy(update=floors),
        one_thread=conclude(pinned.workload, alone) if len(alone) == len(pairs) else None,
        memory=memory,
    )


ONE_THREAD_BASELINES = (EAGER,)
"""torch.compile has written the number of threads into its code."""

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

from kernelwright.core.candidate import COMPILER, Candidate
from kernelwright.core.evaluation import Check, PeakMemory, Status
from kernelwright.core.policy import Policy
from kernelwright.core.task import Task, Workload
from kernelwright.referee.sandbox.processes import status_bytes
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.input_samples import InputSample
from kernelwright.referee.session.reference_process import FREED_BYTES, ReferenceProcess
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.timing.measure import EAGER

SLACK_BYTES = 64 << 20
"""Difference in peak memory that is always allowed: code that is loaded, or compiled in the first call,
stacks, pages of the heap. What torch.compile makes of a small model takes about 30 MiB."""
COMPILER_SLACK_BYTES = 256 << 20
"""The same where torch.compile alone is delivered, which keeps graphs and guards: about 110 MiB more than the
original has been seen, for 256 unrolled steps."""
BLOCK_BYTES = 128 << 10
"""From this size on a block is pages of its own while peak memory is measured: malloc's own first value."""
N_CALLS = 6
"""Calls on each side in which peak memory is measured."""
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
    """Measure both sides; None where the system does not tell. Raises Failure where one alone is closed.

    ``worker`` has made no call yet, so what its module keeps from its first call on counts. As a caller
    would, both sides hold one earlier output while they compute the next. Every block of ``BLOCK_BYTES`` and
    more is pages of its own meanwhile: gaps that earlier calls left in a heap would hide what one side takes.
    A candidate can tell so, and ``worker.looked`` has the output of one of these calls.
    """
    reference = worker.reference
    sets = reference.first_sets
    for slot, sample in zip(sets, samples, strict=False):
        worker.fill(slot, sample.inputs)
        reference.fill(slot, sample.inputs)
    for side in (worker, reference):
        side.load_state(samples[0].state)
        side.keep_last(2)
        side.map_blocks(BLOCK_BYTES)

    def call_worker() -> None:
        worker.run(sets[:1])
        worker.time(sets, N_CALLS - 1, n_looked=1)

    ours = _growth(worker, call_worker)
    theirs = _growth(reference, lambda: reference.make_calls(sets, N_CALLS))
    for side in (worker, reference):
        side.map_blocks(FREED_BYTES)
        side.keep_last()
    if theirs is None:
        return None
    if ours is None:
        detail = (
            "its memory cannot be measured, as the original's can: it has closed its process to the system"
        )
        raise Failure(Status.REJECTED, detail, check=Check.MEMORY)
    always = reference.layout.args_bytes + reference.layout.state_bytes
    least = 2 * reference.output_bytes
    return PeakMemory(delivered_bytes=max(ours, least) + always, original_bytes=max(theirs, least) + always)


def _growth(side: CandidateProcess | ReferenceProcess, call: Callable[[], object]) -> int | None:
    """Return by how much a process's memory, files apart, grew at most since it was empty until calls end.

    What it took when its module was made, and has kept, counts, shared memory apart.
    """
    side.trim()
    pid = side.child.pid
    if not _reset_peak(pid):
        return None
    before, files_before, own = (status_bytes(pid, name) for name in ("VmRSS", "RssFile", "RssAnon"))
    call()
    after, files_after = (status_bytes(pid, name) for name in ("VmHWM", "RssFile"))
    if before is None or after is None or own is None or side.empty_bytes is None:
        return None
    kept = max(own - side.empty_bytes, 0)
    files = max((files_after or 0) - (files_before or 0), 0)  # the system may take pages of files back
    return kept + max(after - before - files, 0)


def _reset_peak(pid: int) -> bool:
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text(RESET_PEAK, encoding="ascii")
        return True
    return False


def require_memory(memory: PeakMemory | None, policy: Policy, role: str = "") -> None:
    """Raise Failure where what a candidate of this role delivers takes more memory than the policy allows."""
    slack = COMPILER_SLACK_BYTES if role == COMPILER else SLACK_BYTES
    if memory is None or memory.delivered_bytes <= policy.peak_memory * memory.original_bytes + slack:
        return
    detail = (
        f"peak memory is {memory.ratio:.2f} times the original's ({memory.delivered_bytes / 2**20:.0f} MiB "
        f"against {memory.original_bytes / 2**20:.0f} MiB); {policy.peak_memory:g} times are allowed "
        "(--peak-memory)"
    )
    raise Failure(Status.REJECTED, detail, check=Check.MEMORY)


ONE_THREAD_BASELINES = (EAGER,)
"""torch.compile has written the number of threads into its code."""

"""Is there enough work to time, or would a measurement only show the cost of calling operators?"""

from collections.abc import Iterator

from kernelwright.core.checkup import Flag, Severity
from kernelwright.referee.checkup.subject import CheckedTask
from kernelwright.referee.checkup.tracing import Tap

CALL_MS = 0.005
"""Milliseconds that calling one eager operator costs besides its work, on the CPU as on a GPU."""


def check_smallness(subject: CheckedTask) -> Iterator[Flag]:
    """Flag a task whose operators take less time than calling them does."""
    tap = Tap(is_recording=True)
    subject.rerun(subject.own[0], tap)
    work = sum(op.cost_ms for op in tap.ops)
    calling = len(tap.ops) * CALL_MS
    if not tap.ops or work >= calling:
        return
    moved, flops = sum(op.bytes for op in tap.ops), sum(op.flops for op in tap.ops)
    yield Flag(
        check="launch-bound",
        severity=Severity.DOUBTFUL,
        says=f"tiny: {len(tap.ops)} operators move {moved / 1e6:.3g} MB and do {flops / 1e6:.3g} MFLOP, "
        f"about {work * 1e3:.0f} us of work against {calling * 1e3:.0f} us for calling them",
        advice="make the sizes larger; otherwise any fusion wins and the kernel itself does not matter",
    )

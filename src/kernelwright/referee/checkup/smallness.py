"""Is there enough work to time, or is the calling of operators all that is measured?"""

from collections.abc import Iterator

from kernelwright.core.checkup import Flag, Severity
from kernelwright.referee.checkup.subject import Subject
from kernelwright.referee.checkup.tracing import Tap

CALL_MS = 0.005
"""What calling one eager operator costs beside its work: a few microseconds, on the CPU as on a GPU."""


def check_smallness(subject: Subject) -> Iterator[Flag]:
    """Flag a task whose operators work for less time than it takes to call them."""
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

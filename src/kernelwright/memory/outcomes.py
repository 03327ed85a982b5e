"""From an attempt to what the ledger keeps of it."""

import math

from kernelwright.core.evidence import Diagnosis
from kernelwright.core.run import Outcome
from kernelwright.core.target import Target
from kernelwright.memory.attempts import Attempt


def outcome_of(
    attempt: Attempt, diagnosis: Diagnosis, *, target: Target, task_id: str, run_id: str
) -> Outcome | None:
    """Return the outcome of a closed attempt; ``diagnosis`` is that of its base.

    None for a move that could not be carried out: no candidate was written, so nothing was measured, and
    whether an edit has a site on another graph says nothing of what it does there.
    """
    if attempt.last is None:
        return None
    speedup = attempt.speedup
    return Outcome(
        skill=attempt.move.skill,
        target=str(target),
        structure=diagnosis.structure,
        bottleneck=diagnosis.bottleneck,
        task_id=task_id,
        run_id=run_id,
        move_key=attempt.move.key,
        verified=attempt.is_verified,
        log_speedup=math.log(speedup) if attempt.is_verified and speedup else None,
        expected=attempt.move.expects,
    )

"""The checks that a verified kernel passed, in words: what each looked at, and what it rules out."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kernelwright.core.evaluation import Check, Evaluation
from kernelwright.core.policy import LibraryCalls, Nonfinite, Policy


class PassedCheck(NamedTuple):
    """One check in words."""

    check: Check
    looked_at: str
    rules_out: str


PASSED: tuple[PassedCheck, ...] = (
    PassedCheck(Check.SOURCE, "The source is Python and defines ModelNew.", "text that is no kernel"),
    PassedCheck(Check.BUILD, "What has to be compiled was compiled.", "code that only looks compiled"),
    PassedCheck(
        Check.INTERFACE,
        "It can be constructed, and has the reference's parameters and buffers.",
        "a module that takes other weights",
    ),
    PassedCheck(Check.RAISED, "No call raised an error or crashed.", "a kernel that works by luck"),
    PassedCheck(
        Check.LIMITS, "Time, memory, processes and files stayed within their limits.", "hanging, hoarding"
    ),
    PassedCheck(Check.FORM, "Outputs have the right number, type, dtype and shape.", "a cheaper answer"),
    PassedCheck(
        Check.STORAGE,
        "Outputs are memory of their own, complete when the call returns.",
        "reused buffers, lazy outputs, work after the clock stopped",
    ),
    PassedCheck(
        Check.INPUTS,
        "Inputs, parameters and the memory around them are the same bytes afterwards.",
        "inputs used as scratch memory, writing out of bounds",
    ),
    PassedCheck(
        Check.STATE, "Buffers change as the reference changes them.", "skipped updates such as running means"
    ),
    PassedCheck(
        Check.ORACLE,
        "On inputs as the task draws them, from secret seeds, it computes what the reference does.",
        "wrong arithmetic, answers computed ahead",
    ),
    PassedCheck(
        Check.FAMILIES,
        "So it is on inputs of other kinds (the table below).",
        "shortcuts that only hold for well-behaved values",
    ),
    PassedCheck(
        Check.NONFINITE,
        "NaN and infinity in the inputs come out where the policy asks for it.",
        "clips and skips that hide a NaN",
    ),
    PassedCheck(
        Check.WEIGHTS,
        "So it is on weights that its constructor did not see, where the module has any.",
        "weights worked in when it was constructed",
    ),
    PassedCheck(
        Check.PRECISION,
        "Its error is as small as was asked.",
        "arithmetic in fewer bits than allowed",
    ),
    PassedCheck(
        Check.TIMED_CALLS,
        "Outputs of the timed calls are right too.",
        "work that is skipped once it is timed",
    ),
    PassedCheck(
        Check.REPLAY,
        "Called on unseen inputs after the timing, it is as right and as fast.",
        "remembered answers, skipped calls",
    ),
    PassedCheck(Check.CLOCK, "Its process's clock agrees with the judge's.", "a stopped or patched clock"),
    PassedCheck(
        Check.TAMPER,
        "Foreign functions and global switches are as they were before it was imported.",
        "a patched judge, a slowed reference",
    ),
    PassedCheck(
        Check.IDLE_WORK,
        "Its processes use no processor time between calls.",
        "work in the background that the clock does not see",
    ),
    PassedCheck(
        Check.FLOOR, "It is not far faster than this machine can be.", "work that was not done at all"
    ),
    PassedCheck(
        Check.MEMORY,
        "The delivered module's peak memory is within the bound.",
        "speed that is bought with memory",
    ),
    PassedCheck(Check.LIBRARY_CALLS, "It leaves no computing to libraries.", "a library's kernel as its own"),
    PassedCheck(
        Check.OWN_KERNEL,
        "Its answer depends on its own compiled code.",
        "a kernel for show beside a library's work",
    ),
)
"""One for each check of the referee, in the order in which they are met."""


def _has_floor(evaluation: Evaluation) -> bool:
    return bool(evaluation.results) and all(result.floor_ms is not None for result in evaluation.results)


def _forbids_libraries(evaluation: Evaluation) -> bool:
    return _policy(evaluation).library_calls is LibraryCalls.FORBIDDEN


def _policy(evaluation: Evaluation) -> Policy:
    return evaluation.policy or Policy()


def _is_replayed(evaluation: Evaluation) -> bool:
    return not evaluation.not_replayed


def _has_memory(evaluation: Evaluation) -> bool:
    return any(one.memory is not None for one in evaluation.ordinary or ())


DEPENDS: Mapping[Check, Callable[[Evaluation], bool]] = {
    Check.FLOOR: _has_floor,
    Check.REPLAY: _is_replayed,
    Check.MEMORY: _has_memory,
    Check.LIBRARY_CALLS: _forbids_libraries,
    Check.OWN_KERNEL: _forbids_libraries,
    Check.NONFINITE: lambda evaluation: _policy(evaluation).nonfinite is not Nonfinite.IGNORED,
}
"""Checks that not every evaluation has, and when it has them."""


def passed_checks(evaluation: Evaluation | None) -> list[PassedCheck]:
    """Return the checks that a verified kernel passed; none for another one, which stopped at the first."""
    if evaluation is None or not evaluation.is_verified:
        return []
    return [one for one in PASSED if one.check not in DEPENDS or DEPENDS[one.check](evaluation)]

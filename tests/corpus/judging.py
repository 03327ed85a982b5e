"""Judges specimens of the corpus by the real referee, for the tests beside this file."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kernelwright.core.evaluation import Status
from kernelwright.core.policy import Policy
from kernelwright.corpus.audit import SpecimenResult, audit
from kernelwright.corpus.load import load_specimens
from kernelwright.corpus.specimen import HARMED, NO_CHECK, NOT_FASTER, Kind, Specimen
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings

QUICK = (
    "03_lazy_subclass",
    "16_counting",
    "21_folds_at_first_call",
    "33_patched_libc",
    "41_half_inputs",
    "44_reads_beyond",
)
"""One for each kind of check; ``test_judging_others.py`` judges the others, with the slow tests."""
JUDGEMENTS = 6
"""Most judgements of a specimen until a check of its header finds it."""
BY_PAUSES = (
    "16_long_series", "21_folds_after_pauses", "21_folds_tied_after_pauses", "21_folds_while_nothing_is_fed"
)  # fmt: skip
"""Each cheats until there is a pause. Busy cores bring pauses, and it does nothing wrong then."""
LOAD_S = {Kind.CHEAT: 60.0, Kind.HOSTILE: 20.0}
"""Limit for imports and first calls: some cheats compile there, and some hostile programs never end."""
ENDLESS_S = 5.0
"""The same for programs that nothing but this limit should end."""
FINAL_S = 5.0
"""Finals end at the fewest pairs of processes; in ``kernelwright audit`` they may take more."""


def judged(names: Sequence[str], cache: Path) -> dict[str, SpecimenResult]:
    """Return the audit's result for each of these specimens.

    Draws and rounds are random: a specimen may meet another check than the one its header names, and one that
    is not faster is found faster by one interval in forty. It is judged again then, and let through when it
    is found faster twice. One of ``BY_PAUSES`` that is let through is judged again, too. One that is let
    through otherwise, or does harm, stays as it was found.
    """
    found: dict[str, list[SpecimenResult]] = {name: [] for name in names}
    for _ in range(JUDGEMENTS):
        left = [s for s in load_specimens() if s.name in names and is_open(found[s.name])]
        for load_s in (*LOAD_S.values(), ENDLESS_S):
            limited = [s for s in left if limit_of(s) == load_s]
            for finding in audit(limited, opener(cache, load_s=load_s), lambda task: {}):
                found[finding.specimen.name].append(finding)
    return {name: findings[-1] for name, findings in found.items()}


def limit_of(specimen: Specimen) -> float:
    """Return the limit for a specimen's imports and first call: what it should end with stands first."""
    return ENDLESS_S if specimen.expect[0] == Status.TIMEOUT else LOAD_S[specimen.kind]


def is_open(findings: Sequence[SpecimenResult]) -> bool:
    """True before the first judgement, and where the last one may have been chance."""
    if not findings:
        return True
    last = findings[-1]
    is_hurt = HARMED in last.detail or bool(last.left)
    if last.outcome == Status.VERIFIED and NOT_FASTER in last.specimen.expect:
        return not is_hurt and [f.outcome for f in findings].count(last.outcome) < 2
    if last.outcome == Status.VERIFIED and last.specimen.name in BY_PAUSES:
        return not is_hurt
    return not (last.is_as_expected or is_hurt or last.outcome in NO_CHECK)


def opener(cache: Path, device: str = "cpu", load_s: float = 60.0) -> Callable[[Policy], Referee]:
    """Return what opens a referee for a policy; programs that take all they get are stopped early."""
    settings = RefereeSettings(
        cache_dir=cache,
        load_timeout_s=load_s,
        search_timing_s=0.1,
        final_timing_s=0.4,
        final_seconds=FINAL_S,
        worker_total_bytes=4 << 30,
        worker_scratch_bytes=256 << 20,
        device=device,
    )

    def open_referee(policy: Policy) -> Referee:
        return Referee(RefereeSettings(**{**vars(settings), "policy": policy}))

    return open_referee


def require_expected(finding: SpecimenResult) -> None:
    """Fail unless a specimen and its control end as their headers say."""
    seen = (finding.outcome, finding.check, finding.detail, finding.control, finding.left)
    assert finding.is_as_expected, seen

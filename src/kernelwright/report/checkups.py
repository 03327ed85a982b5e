"""What examinations of tasks found, as cells, as a verdict and as Markdown."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kernelwright.core.checkup import SEVERITIES, Checkup, EarlierCheck, Flag, Severity
from kernelwright.core.evidence import FactValue
from kernelwright.report.markdown import Marked, code, facts_line, plain, table
from kernelwright.report.verdict import Tone, Verdict

HEADER = ("task", "verdict", "flags", "what is wrong")
FINE = "fine"
_HEADLINES: dict[Severity | None, tuple[Tone, str]] = {
    Severity.UNUSABLE: ("bad", "Unusable: no speedup on this task means anything as it is"),
    Severity.DOUBTFUL: ("bad", "Doubtful: a speedup on this task may not be what it seems"),
    Severity.NOTE: ("good", "Fine, with notes"),
    None: ("good", "Fine: nothing found against it"),
}


def verdict_word(checkup: Checkup) -> str:
    """Return ``unusable``, ``doubtful`` or ``fine``."""
    worst = checkup.worst
    return FINE if worst is None or checkup.is_trustworthy else worst.value


def checkup_verdict(checkup: Checkup) -> Verdict:
    """Return one task's verdict, its flags worst first, each with what to do."""
    tone, headline = _HEADLINES[checkup.worst]
    lines = [f"{checkup.task}, {_at(checkup)}"]
    several = len({flag.workload for flag in checkup.flags}) > 1
    for flag in ordered(checkup.flags):
        where = f" ({flag.workload})" if several else ""
        lines += [f"{flag.severity}: {flag.check}{where}: {flag.says}", f"    {flag.advice}"]
    return Verdict(tone, headline, tuple(lines))


def ordered(flags: Sequence[Flag]) -> list[Flag]:
    """Return flags worst first."""
    return sorted(flags, key=lambda flag: SEVERITIES.index(flag.severity))


def cells(checkup: Checkup) -> tuple[str, ...]:
    """Return one task's cells under HEADER: names of all flags, words of the worst."""
    names = dict.fromkeys(flag.check for flag in ordered(checkup.flags))
    serious = [flag for flag in ordered(checkup.flags) if flag.severity is not Severity.NOTE]
    says = f"{serious[0].check}: {serious[0].says}" if serious else ""
    return checkup.task, verdict_word(checkup), ", ".join(names), says


def counts_line(checkups: Sequence[Checkup]) -> str:
    """Return how many tasks are what, in one line."""
    counts = Counter(map(verdict_word, checkups))
    words = [f"{counts[word]} {word}" for word in (*SEVERITIES[:2], FINE) if counts[word]]
    return f"{len(checkups)} tasks: {', '.join(words)}"


def checkups_markdown(
    name: str,
    checkups: Sequence[Checkup],
    *,
    date: str,
    command: str,
    environment: Mapping[str, FactValue],
    earlier: Sequence[EarlierCheck] = (),
) -> str:
    """Return the whole document: the sums, a row a task, the notes, what an earlier check found."""
    parts = [
        f"# {plain(name)}",
        f"{date}. {facts_line(environment)}.",
        code(command),
        f"{counts_line(checkups)}.",
        "What each flag means: docs/check.md. Sizes in brackets were reduced for the check.",
    ]
    serious = [checkup for checkup in checkups if not checkup.is_trustworthy]
    if serious:
        header = ("task", "verdict", "what is wrong")
        parts += ["## Unusable and doubtful", table(header, [_reasons(c) for c in serious])]
    notes = [checkup for checkup in checkups if checkup.is_trustworthy and checkup.flags]
    if notes:
        parts += ["## Fine, with notes", table(("task", "notes"), [_notes(c) for c in notes])]
    clean = [f"{checkup.task} ({_at(checkup)})" for checkup in checkups if not checkup.flags]
    if clean:
        parts += ["## Nothing found", plain(", ".join(clean))]
    if earlier:
        parts += ["## Checked earlier", *(_earlier(check, checkups) for check in earlier)]
    return "\n\n".join(parts) + "\n"


def _earlier(check: EarlierCheck, checkups: Sequence[Checkup]) -> str:
    names = [checkup.task for checkup in checkups if checkup.task_id in check.task_ids]
    return f"{plain(check.date)}. {facts_line(check.environment)}. {plain(', '.join(names))}."


def _reasons(checkup: Checkup) -> tuple[str, ...]:
    lines = flag_lines(flag for flag in ordered(checkup.flags) if flag.severity is not Severity.NOTE)
    return f"{checkup.task} ({_at(checkup)})", verdict_word(checkup), lines


def _notes(checkup: Checkup) -> tuple[str, str]:
    return f"{checkup.task} ({_at(checkup)})", flag_lines(checkup.flags)


def flag_lines(flags: Iterable[Flag]) -> Marked:
    """Return a cell of a Markdown table with a line for each flag."""
    return Marked("<br>".join(dict.fromkeys(f"**{plain(flag.check)}** {plain(flag.says)}" for flag in flags)))


def _at(checkup: Checkup) -> str:
    sizes = ", ".join(f"{name}={value}" for name, value in checkup.sizes.items())
    return f"at {sizes}" if sizes else "at its own sizes"

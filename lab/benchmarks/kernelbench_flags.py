"""Write the list of KernelBench problems that speedups should not be trusted on.

1. ``kernelwright check KernelBench/KernelBench --only 'level[123]/*' --out FOLDER`` examines every problem
   (goes on with ``--resume``); FOLDER is benchmarks/results/kernelbench-flags.
2. This script turns its results.json into docs/kernelbench-problems.md and says where the flags and an
   earlier, independent probe disagree. Exit code 1 when one that everybody knows to be bad is not flagged.

The earlier probe ran KernelBench 423217d with seed-42 weights, two input seeds and smaller batches, and asked
three things: do zeros pass, does a constant pass, does the output for other inputs pass.

Usage: python -m lab.benchmarks.kernelbench_flags benchmarks/results/kernelbench-flags/results.json \
           > docs/kernelbench-problems.md
"""

import json
import re
import sys
from pathlib import Path

from kernelwright.core.checkup import Checkup, Severity
from kernelwright.report.checkups import counts_line, flag_lines, ordered, verdict_word
from kernelwright.report.markdown import table

PROBED = {
    1: {23, 37},
    2: {9, 23, 36, 38, 42, 65, 66, 80, 83},
    3: {3, 7, 11, 12, 18, 28, 35},
}
"""Level -> constant, blind to the input or irreproducible at 1e-4, by the earlier probe."""
BLIND = frozenset(("constant-output", "near-constant-output", "random", "random-unseen"))
"""Flags that mean the same as the probe's."""


KNOWN_BAD = {2: {23, 66, 80, 83}}
"""Level -> problems whose output is constant, blind or random beyond doubt."""


def place(checkup: Checkup) -> tuple[int, int]:
    """Return level and number; 0 where the file has none."""
    level = re.search(r"level(\d)", checkup.path or "")
    number = re.match(r"(\d+)_", checkup.task)
    return int(level[1]) if level else 0, int(number[1]) if number else 0


def is_blind(checkup: Checkup) -> bool:
    """True when a flag worse than a note says what the probe asked about."""
    return any(flag.check in BLIND and flag.severity is not Severity.NOTE for flag in checkup.flags)


def main(results: Path) -> int:
    """Write the page to standard output; return 1 when a known bad problem was examined and not flagged."""
    document = json.loads(results.read_text(encoding="utf-8"))
    checkups = sorted((Checkup.model_validate(row) for row in document["tasks"]), key=place)
    lines = [
        "# KernelBench's problems, examined",
        f"`kernelwright check KernelBench/KernelBench --only 'level[123]/*' --out {results.parent}` and "
        "`python -m lab.benchmarks.kernelbench_flags` make this page, from KernelBench 423217d in train mode "
        "(its default). [Checking a task](check.md) explains the flags. Notes are omitted here; "
        f"`{results.with_name('results.md')}` has them. Brackets show sizes that were reduced for the check. "
        "Some problems average over large extents and are closer to a constant at full size than said here.",
    ]
    for level in sorted({place(checkup)[0] for checkup in checkups}):
        members = [checkup for checkup in checkups if place(checkup)[0] == level]
        lines += [f"## Level {level}", f"{counts_line(members)}.", *_tables(members)]
        lines.append(_agreement(level, members))
    sys.stdout.write("\n\n".join(lines) + "\n")
    good = {place(checkup) for checkup in checkups if not is_blind(checkup)}
    return int(any((level, number) in good for level, known in KNOWN_BAD.items() for number in known))


def _tables(members: list[Checkup]) -> list[str]:
    parts = []
    for word in ("unusable", "doubtful"):
        rows = [_row(checkup) for checkup in members if verdict_word(checkup) == word]
        if rows:
            parts += [f"### {word.capitalize()}", table(("problem", "why"), rows)]
    return parts


def _row(checkup: Checkup) -> tuple[str, str]:
    sizes = ", ".join(f"{name}={value}" for name, value in checkup.sizes.items())
    serious = [flag for flag in ordered(checkup.flags) if flag.severity is not Severity.NOTE]
    return f"{checkup.task}{f' ({sizes})' if sizes else ''}", flag_lines(serious)


def _agreement(level: int, members: list[Checkup]) -> str:
    probed = PROBED.get(level, set())
    examined = {place(checkup)[1] for checkup in members}
    ours = {place(checkup)[1] for checkup in members if is_blind(checkup)}
    both, missed, more = ours & probed, (probed & examined) - ours, ours - probed
    return (
        f"Constant, blind or random at 1e-4 in both this check and the earlier probe: {_list(both)}; only in "
        f"the probe: {_list(missed)}; only in this check: {_list(more)}. Probed but not examined here: "
        f"{_list(probed - examined)}."
    )


def _list(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

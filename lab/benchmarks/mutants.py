"""Planted bugs: every mutant of a correct kernel before the real referee.

Mutants are made by operators (``lab.mutants``) from the suite's tasks at small odd sizes: of
the C++ that our printer writes, of the Python around it, and of what the reference means. A mutant is
*killed* when the referee ends with anything but ``verified``. Those that are no bugs are declared, each with
its reason, and compared with the kernel they were made of to the last bit. Anything else that is verified
is a *survivor*.

Races, uninitialised sums and writes behind the end may be right by luck: each is judged three times, and
killed when it is found once. What was verified as a search does it is judged once more as a final does it,
for nothing is delivered without; the table says which of the two found it.

Everything is kept in ``--work`` as it happens; the same command carries an interrupted one on.

Usage: python -m lab.benchmarks.mutants [--limit N] [--only GLOB] [--out benchmarks/results]
Exit code 1 when there is a survivor, or when a declared equivalent was not verified.
"""

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation
from kernelwright.referee.session.referee import Referee, RefereeSession, RefereeSettings
from kernelwright.settings import load_settings
from lab.benchmarks import RESULTS
from lab.footer import environment, footer
from lab.mutants.catalogue import Mutant, catalogue
from lab.trials import Journal, Trial, by_task, trial_of

LUCKY_RUNS = 3
FINAL = -1
"""The run that is a final evaluation."""
CLOCK, CLOCK_TRIES = "clock disagreement", 5
KILLED, EQUIVALENT, SURVIVED, WRONGLY_DECLARED = "killed", "equivalent", "survived", "declared, yet rejected"
COMPARE_S = 120
SHOWN = {"status", "stage", "check", "family", "families", "detail"}
"""What the table takes over from a trial."""


def judge(session: RefereeSession, source: str, *, final: bool = False) -> Evaluation:
    """Judge with as little timing as there can be: what gets that far has survived.

    Samples that short may have clocks disagree on a busy machine. That finds no bug, so it is tried again.
    """
    for _ in range(CLOCK_TRIES - 1):
        evaluation = session.evaluate(Candidate(source=source), final=final)
        if not evaluation.detail.startswith(CLOCK):
            return evaluation
    return session.evaluate(Candidate(source=source), final=final)


def quick_settings(cache_dir: Path) -> RefereeSettings:
    """Return the usual limits with the shortest timing."""
    return RefereeSettings(cache_dir=cache_dir, search_timing_s=0.0, batch_s=0.0005)


def run(mutants: Sequence[Mutant], journal: Journal, cache_dir: Path) -> None:
    """Judge what the journal does not know yet."""
    begin, done = time.monotonic(), 0
    open_ones = [m for m in mutants if open_runs(m, journal)]
    with Referee(quick_settings(cache_dir)) as referee:
        for task, members in by_task(open_ones):
            with referee.open(task) as session:
                for mutant in members:
                    while runs := open_runs(mutant, journal):
                        evaluation = judge(session, mutant.source, final=runs[0] == FINAL)
                        journal.add(trial_of(mutant, runs[0], evaluation))
                    done += 1
            say(f"{task.name}: {done} of {len(open_ones)}, {time.monotonic() - begin:.0f} s")


def open_runs(mutant: Mutant, journal: Journal) -> list[int]:
    """Return the runs still to be made; the final one is asked for when all others have let it pass."""
    n_runs = LUCKY_RUNS if mutant.may_be_lucky else 1
    missing = [n for n in range(n_runs) if journal.find(mutant, n) is None]
    if missing or mutant.equivalent or any(map(is_caught, trials_of(mutant, journal))):
        return missing
    return [FINAL] if journal.find(mutant, FINAL) is None else []


def trials_of(mutant: Mutant, journal: Journal) -> list[Trial]:
    """Return what is known of it, the final one last."""
    return [t for n in (*range(LUCKY_RUNS), FINAL) if (t := journal.find(mutant, n)) is not None]


def is_caught(trial: Trial) -> bool:
    """True when a bug was found."""
    return not trial.is_verified and not trial.detail.startswith(CLOCK)


def row(mutant: Mutant, journal: Journal, cache_dir: Path) -> dict[str, Any]:
    """Return one line of the table."""
    trials = trials_of(mutant, journal)
    caught = [t for t in trials if is_caught(t)]
    n_search = sum(t.run != FINAL for t in trials)
    shown = (caught or trials)[0]
    reason = mutant.equivalent
    verdict = _verdict(bool(caught), reason)
    return {
        "mutant": mutant.name,
        "task": mutant.task.name,
        "layer": mutant.layer,
        "operator": mutant.operator,
        "verdict": verdict,
        "caught": "in the final" if shown.run == FINAL else f"{len(caught)} of {n_search}",
        **shown.model_dump(mode="json", include=SHOWN),
        "reason": reason if verdict == EQUIVALENT else None,
        "bits": compare(mutant, cache_dir) if verdict == EQUIVALENT else None,
    }


def _verdict(is_caught: bool, reason: str | None) -> str:
    if is_caught:
        return WRONGLY_DECLARED if reason else KILLED
    return EQUIVALENT if reason else SURVIVED


def compare(mutant: Mutant, cache_dir: Path) -> str:
    """Compare a mutant with the kernel it was made of, in another process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pair.json")
        pair = {"task": mutant.task.model_dump(mode="json"), "one": mutant.original, "other": mutant.source}
        file.write_text(json.dumps(pair), encoding="utf-8")
        command = [sys.executable, "-m", "lab.mutants.comparing", str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPARE_S)
        except subprocess.TimeoutExpired:
            return f"could not be compared: not done after {COMPARE_S} s"
    return done.stdout.strip() or f"could not be compared: {done.stderr.strip().splitlines()[-1:]}"


def render(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    rows, counts = result["rows"], Counter(row["verdict"] for row in result["rows"])
    n_late = sum(r["verdict"] == KILLED and r["caught"] == "in the final" for r in rows)
    lines = ["# Planted bugs", ""]
    lines.append(
        f"{len(rows)} mutants of {len({r['task'] for r in rows})} kernels: {counts[KILLED]} killed "
        f"({n_late} of them not before the final evaluation), "
        f"{counts[EQUIVALENT]} equivalent (explained below), {counts[SURVIVED]} survived, "
        f"{counts[WRONGLY_DECLARED]} declared equivalent and yet rejected."
    )
    lines += ["", *_by_operator(rows), "", *_how(rows, "status"), "", *_how(rows, "family"), ""]
    for title, verdict in (("Survivors", SURVIVED), ("Declared equivalent, yet rejected", WRONGLY_DECLARED)):
        found = [r for r in rows if r["verdict"] == verdict]
        if found:
            lines += [
                f"## {title}",
                "",
                *(
                    f"- `{r['mutant']}`: {r['status']} {r['detail']} ({', '.join(r['families'])})"
                    for r in found
                ),
                "",
            ]
    lines += ["## No bugs", "", "| mutant | why it is none | beside its original |", "|---|---|---|"]
    lines += [f"| {r['mutant']} | {r['reason']} | {r['bits']} |" for r in rows if r["verdict"] == EQUIVALENT]
    lines += ["", "## Every mutant", "", "| mutant | verdict | runs caught | status | found on | detail |"]
    lines.append("|---|---|---|---|---|---|")
    lines += [_line(r) for r in rows]
    lines += ["", footer(result), "", f"Command: `{result['command']}`"]
    return "\n".join(lines) + "\n"


def _line(row: dict[str, Any]) -> str:
    detail = row["detail"].replace("|", "/")[:110]
    found = f"{row['caught']} | {row['status']} | {row['family'] or ''}"
    return f"| {row['mutant']} | {row['verdict']} | {found} | {detail} |"


def _by_operator(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "| layer | operator | mutants | killed | equivalent | survived |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for layer, operator in dict.fromkeys((r["layer"], r["operator"]) for r in rows):
        own = [r["verdict"] for r in rows if (r["layer"], r["operator"]) == (layer, operator)]
        n = Counter(own)
        lines.append(f"| {layer} | {operator} | {len(own)} | {n[KILLED]} | {n[EQUIVALENT]} | {n[SURVIVED]} |")
    return lines


def _how(rows: Sequence[dict[str, Any]], field: str) -> list[str]:
    found = Counter(str(r[field] or "-") for r in rows if r["verdict"] == KILLED)
    title = {"status": "killed with", "family": "killed on draws"}[field]
    return [f"| {title} | mutants |", "|---|---:|", *(f"| {name} | {n} |" for name, n in found.most_common())]


def say(text: str) -> None:
    """Report progress."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def chosen(only: str, limit: int | None) -> list[Mutant]:
    """Return the mutants asked for; with a limit, evenly from the whole list."""
    found = catalogue(only)
    if limit is None or limit >= len(found):
        return list(found)
    return [found[i * len(found) // limit] for i in range(limit)]


def main() -> int:
    """Judge, print, write."""
    parser = argparse.ArgumentParser(description="Mutants of correct kernels before the referee.")
    parser.add_argument("--limit", type=int, help="at most so many, evenly chosen")
    parser.add_argument("--only", default="*", help="glob over TASK/layer/operator/place")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path, default=load_settings().data_dir / "benchmarks" / "mutants")
    options = parser.parse_args()
    say("making the mutants ...")
    mutants = chosen(options.only, options.limit)
    if not mutants:
        parser.error(f"--only {options.only}: no mutant has such a name")
    journal = Journal(options.work / "trials.jsonl")
    cache = options.work / "cache"
    run(mutants, journal, cache)
    rows = [row(mutant, journal, cache) for mutant in mutants]
    limit = f" --limit {options.limit}" if options.limit else ""
    only = f" --only '{options.only}'" if options.only != "*" else ""
    result = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m lab.benchmarks.mutants{limit}{only}",
        "environment": environment(),
        "counts": dict(Counter(r["verdict"] for r in rows)),
        "rows": rows,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "mutants.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    text = render(result)
    (options.out / "mutants.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 1 if {SURVIVED, WRONGLY_DECLARED} & set(result["counts"]) else 0


if __name__ == "__main__":
    sys.exit(main())

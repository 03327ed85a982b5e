"""Kernels of a strong model, whose answers were supplied by hand, beside the expert's.

The tasks are ``benchmarks/by_hand``, the kernels ``benchmarks/results/by-hand``: the winners of runs with
knowledge in the prompts, without, of a mixed team, and of the expert alone. Each is timed in turn with the
expert's in fresh processes, and has a final of its own.

Usage: python -m lab.benchmarks.by_hand [--seconds 20] [--out FOLDER]
"""

import argparse
import datetime
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Speedup
from kernelwright.core.task import Task
from kernelwright.machine.probe import probe_machine
from kernelwright.referee.session.referee import Referee, RefereeSession, RefereeSettings
from kernelwright.referee.version import REFEREE_VERSION
from kernelwright.report.markdown import table
from kernelwright.report.measures import RatioInterval, geomean, speedup_over, times
from kernelwright.settings import load_settings
from kernelwright.tasks.kernelbench import load_task
from lab.benchmarks import RESULTS, ROOT

KERNELS = RESULTS / "by-hand"
TASKS = ("pointwise_chain", "row_softmax", "linear_silu_logsumexp", "kernel_regression")
EXPERT, MODES = "expert", ("with", "without", "mixed")
TITLES = {"with": "with knowledge", "without": "without knowledge", "mixed": "mixed team", EXPERT: "expert"}


def main() -> None:
    """Measure every task and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="for each pair that is timed in turn")
    parser.add_argument("--out", type=Path, default=KERNELS)
    options = parser.parse_args()
    rows = []
    with Referee(RefereeSettings(cache_dir=load_settings().cache_dir)) as referee:
        for name in TASKS:
            task = load_task(ROOT / "benchmarks" / "by_hand" / f"{name}.py")
            with referee.open(task) as session:
                rows.append({"task": name, **measured(session, task, options.seconds)})
            sys.stderr.write(f"{name}: {rows[-1]['expert']}\n")
    result = {
        "date": f"{datetime.date.today()}",
        "referee": REFEREE_VERSION,
        "environment": probe_machine(load_settings().cache_dir).environment(),
        "rows": rows,
    }
    (options.out / "by-hand.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (options.out / "by-hand.md").write_text(render(result), encoding="utf-8")


def measured(session: RefereeSession, task: Task, seconds: float) -> dict[str, Any]:
    """Return speedups over eager in finals, and over the expert's kernel, by mode."""
    kernels = {
        mode: Candidate(source=(KERNELS / f"{task.name}_{mode}.py").read_text(encoding="utf-8"))
        for mode in (*MODES, EXPERT)
    }
    finals = {mode: session.evaluate(one, final=True) for mode, one in kernels.items()}
    over = {mode: over_expert(session, kernels[mode], kernels[EXPERT], seconds) for mode in MODES}
    return {
        "eager": {mode: speedup_over(one, "eager") for mode, one in finals.items()},
        "status": {mode: one.detail or str(one.status) for mode, one in finals.items()},
        "expert": over,
    }


def over_expert(
    session: RefereeSession, kernel: Candidate, expert: Candidate, seconds: float
) -> RatioInterval | None:
    """Return how many times as fast a kernel is as the expert's, timed in turn."""
    timed = session.alternate([kernel, expert], seconds)
    if timed is None or not timed.leads:
        return None
    lead: Speedup = timed.leads[0]
    if timed.order[0] == kernel.id:
        return RatioInterval(lead.ratio, lead.low, lead.high)
    return RatioInterval(1 / lead.ratio, 1 / lead.high, 1 / lead.low)


def render(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    rows: list[dict[str, Any]] = result["rows"]
    over = [[row["task"], *(str(row["expert"][mode] or "") for mode in MODES)] for row in rows]
    over.append(["geometric mean", *(mean(row["expert"][mode] for row in rows) for mode in MODES)])
    ways = (*MODES, EXPERT)
    eager = [[row["task"], *(str(row["eager"][way] or row["status"][way]) for way in ways)] for row in rows]
    parts = [
        "# A strong model by hand",
        f"{result['date']}, referee version {result['referee']}, `python -m lab.benchmarks.by_hand`.",
        "Over the expert's kernel, timed in turn:",
        table(("task", *(TITLES[mode] for mode in MODES)), over),
        "Over eager, finals, in ordinary processes:",
        table(("task", *(TITLES[way] for way in ways)), eager),
    ]
    return "\n\n".join(parts) + "\n"


def mean(found: Iterable[RatioInterval | None]) -> str:
    middle = geomean(one.ratio for one in found if one is not None)
    return "" if middle is None else times(middle)


if __name__ == "__main__":
    main()

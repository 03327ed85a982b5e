"""Run by itself: profiles the tasks that stayed farthest from their floors, else the slowest ones.

``python -m gpucheck.profile_slowest OUT DEVICE SECONDS``: reads what the benches left in OUT, writes
``OUT/profile/profiles.json`` after every task. Candidates of the expert team are called unconfined.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpucheck.parts import BENCHES
from gpucheck.results import write_atomically
from kernelwright.core.task import Task
from kernelwright.corpus.load import honest_twin
from kernelwright.report.story import tell
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.targets.gpu.profilers.profile import Profiled
from kernelwright.targets.gpu.profilers.take import take_profile
from kernelwright.tasks.namespace import bind_source

N_SLOWEST = 5
LEAST_S = 20.0
"""For a task: every tool starts torch and the device anew and compiles the kernel once more."""
NONE = 2
FACTS = 8
"""So many of a profile's facts are kept for the table."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Profile and write; returns 0, 1 where there was nothing to profile, 2 where no profile could be had.

    Tasks that no time is left for are not begun.
    """
    out, device, seconds = list(sys.argv[1:] if arguments is None else arguments)
    folder, ends = Path(out) / "profile", time.monotonic() + float(seconds)
    chosen = slowest(_rows(Path(out)))
    if not chosen:
        sys.stderr.write("no bench has left a task; nothing to profile\n")
        return 1
    store = open_store(str(Path(out) / "runs.db"))
    found: list[dict[str, Any]] = []
    for number, row in enumerate(chosen):
        left = max(ends - time.monotonic(), 1.0)
        if found and left < LEAST_S:
            break
        each = min(max(left / (len(chosen) - number), LEAST_S), left)
        sys.stderr.write(f"{row['task']}: up to {each:.0f} s a tool ...\n")
        task, source = _delivered(store, row["run_id"])
        profiled = take_profile(
            source,
            bind_source(task, task.workloads[0]),
            device,
            mode=task.mode.value,
            is_tf32=task.tolerance.may_round,
            timeout_s=each,
        )
        sys.stderr.write(f"{row['task']}: {profiled.note}\n")
        found.append(_record(row, profiled))
        document = {"rows": found, "left": len(chosen) - len(found)}
        write_atomically(folder / "profiles.json", json.dumps(document, indent=2) + "\n")
    return 0 if any(record["kernel"] for record in found) else NONE


def _rows(out: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name in BENCHES:
        try:
            rows += json.loads((out / name / "results.json").read_text(encoding="utf-8"))["rows"]
        except (OSError, ValueError, KeyError):
            continue
    return rows


def slowest(rows: Sequence[dict[str, Any]], count: int = N_SLOWEST) -> list[dict[str, Any]]:
    """Return the tasks that reach the least of their floors, the farthest first.

    Where floors are unknown, those that take longest follow.
    """
    ran = [row for row in rows if row.get("run_id") and row.get("delivered_ms") is not None]
    one_each = {row["task"]: row for row in ran}.values()
    known = [row for row in one_each if row.get("floor_fraction") is not None]
    others = [row for row in one_each if row.get("floor_fraction") is None]
    known.sort(key=lambda row: float(row["floor_fraction"]))
    others.sort(key=lambda row: -float(row["delivered_ms"]))
    return [*known, *others][:count]


def _delivered(store: Store, run_id: str) -> tuple[Task, str]:
    """Return a run's task and what it delivered: the task's own module where nothing was faster."""
    task = store.get_run(run_id).spec.task
    finished = tell(stored.event for stored in store.iter_events(run_id)).finished
    if finished is None or finished.winner is None:
        return task, honest_twin(task.model_copy(update={"source": bind_source(task, task.workloads[0])}))
    return task, store.get_candidate(finished.winner).source


def _record(row: dict[str, Any], profiled: Profiled) -> dict[str, Any]:
    return {
        "task": row["task"],
        "floor_fraction": row.get("floor_fraction"),
        "delivered_ms": row.get("delivered_ms"),
        "detail": profiled.note,
        "kernel": profiled.hottest,
        "facts": dict(list(profiled.facts.items())[:FACTS]),
    }


if __name__ == "__main__":
    raise SystemExit(main())

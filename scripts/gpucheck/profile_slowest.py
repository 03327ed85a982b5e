"""Run by itself: profiles the tasks that stayed farthest from their floors, with what tool there is.

``python -m gpucheck.profile_slowest OUT VENDOR SECONDS``: reads what the benches left in OUT, writes
``OUT/profile/profiles.json``. Candidates of the expert team are called unconfined.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpucheck.results import write_atomically
from gpucheck.running import run
from kernelwright.devices.profilers.choose import no_tool, profilers_here
from kernelwright.devices.profilers.nsight_compute import ncu_command, parse_ncu
from kernelwright.devices.profilers.profile import Profile, ProfileStatus
from kernelwright.devices.profilers.torch_trace import parse_torch_trace
from kernelwright.report.story import tell
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.tasks.namespace import bind_source

BENCHES = ("suite", "kernelbench")
N_SLOWEST = 5
CALLS = 5
FACTS = 8
"""So many of a profile's facts are kept for the table."""


def main(arguments: Sequence[str] | None = None, device: str = "cuda") -> int:
    """Profile and write; returns 0, or 1 where there was nothing to profile."""
    out, vendor, seconds = list(sys.argv[1:] if arguments is None else arguments)
    folder, ends = Path(out) / "profile", time.monotonic() + float(seconds)
    chosen = slowest(_rows(Path(out)))
    if not chosen:
        sys.stderr.write("no bench has left a task with a floor; nothing to profile\n")
        return 1
    store = open_store(str(Path(out) / "runs.db"))
    found: list[dict[str, Any]] = []
    for number, row in enumerate(chosen):
        left = (ends - time.monotonic()) / (len(chosen) - number)
        sys.stderr.write(f"{row['task']}: up to {max(left, 0):.0f} s ...\n")
        place = folder / f"{number + 1}_{row['task']}"
        mode = _prepare(store, row["run_id"], place)
        profile = take(place, vendor, device, mode, left)
        found.append(_record(row, profile))
        write_atomically(folder / "profiles.json", json.dumps({"rows": found}, indent=2) + "\n")
    return 0


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

    Where no floor is known (a GPU without figures), those that take the longest.
    """
    ran = [row for row in rows if row.get("run_id")]
    known = [row for row in ran if row.get("floor_fraction") is not None]
    if known:
        return sorted(known, key=lambda row: float(row["floor_fraction"]))[:count]
    timed = [row for row in ran if row.get("delivered_ms") is not None]
    return sorted(timed, key=lambda row: -float(row["delivered_ms"]))[:count]


def _prepare(store: Store, run_id: str, place: Path) -> str:
    """Write the task and what the run delivered; return the task's mode."""
    task = store.get_run(run_id).spec.task
    finished = tell(stored.event for stored in store.iter_events(run_id)).finished
    place.mkdir(parents=True, exist_ok=True)
    (place / "task.py").write_text(bind_source(task, task.workloads[0]), encoding="utf-8")
    if finished is not None and finished.winner is not None:
        source = store.get_candidate(finished.winner).source
        (place / "kernel.py").write_text(source, encoding="utf-8")
    return task.mode.value


def take(place: Path, vendor: str, device: str, mode: str, seconds: float) -> Profile:
    """Return a profile by counters where they can be read, else by torch's profiler."""
    call = str(Path(__file__).with_name("one_call.py"))
    program = [sys.executable, call, str(place), device, mode, str(CALLS)]
    if seconds <= 0:
        return Profile(tool="none", status=ProfileStatus.NO_TOOL, message="no time was left for it")
    if "ncu" in profilers_here(vendor):
        log = place / "ncu.txt"
        run(ncu_command(program), log, seconds * 0.7)
        profile = parse_ncu(log.read_text(encoding="utf-8", errors="replace"))
        if profile.status is ProfileStatus.PROFILED:
            return profile
    trace = place / "trace.json"
    ran = run([*program, str(trace)], place / "torch.txt", seconds * 0.3)
    if not trace.exists():
        words = ran.last_lines[-1] if ran.last_lines else "it wrote nothing"
        return no_tool(vendor).model_copy(update={"message": f"torch's profiler left no trace: {words}"})
    return parse_torch_trace(trace.read_text(encoding="utf-8"))


def _record(row: dict[str, Any], profile: Profile) -> dict[str, Any]:
    hottest = profile.hottest
    facts = profile.facts(CALLS)
    return {
        "task": row["task"],
        "floor_fraction": row["floor_fraction"],
        "delivered_ms": row.get("delivered_ms"),
        "tool": profile.tool,
        "status": profile.status.value,
        "detail": profile.message,
        "kernel": None if hottest is None else hottest.name[:120],
        "kernels": [
            {
                "name": kernel.name,
                "launches": kernel.launches,
                "total_us": kernel.total_us,
                "metrics": kernel.metrics,
            }
            for kernel in profile.kernels[:FACTS]
        ],
        "facts": dict(list(facts.items())[:FACTS]),
    }


if __name__ == "__main__":
    raise SystemExit(main())

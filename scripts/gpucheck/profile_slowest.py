"""Run by itself: profiles the tasks that stayed farthest from their floors, else the slowest ones.

``python -m gpucheck.profile_slowest OUT VENDOR SECONDS``: reads what the benches left in OUT, writes
``OUT/profile/profiles.json``. Candidates of the expert team are called unconfined.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpucheck.one_call import WARM_UPS
from gpucheck.parts import BENCHES
from gpucheck.results import write_atomically
from gpucheck.running import run
from kernelwright.devices.profilers.choose import no_tool, profilers_here
from kernelwright.devices.profilers.nsight_compute import ncu_command, parse_ncu
from kernelwright.devices.profilers.profile import Profile, ProfileStatus
from kernelwright.devices.profilers.rocprof import (
    parse_rocprof_counters,
    parse_rocprof_stats,
    rocprof_commands,
)
from kernelwright.devices.profilers.torch_trace import parse_torch_trace
from kernelwright.report.story import tell
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.tasks.namespace import bind_source

N_SLOWEST = 5
CALLS = 5
LAUNCHES = 60
"""Of kernels, that ncu is asked to profile at most: it repeats every one."""
NCU_OPTIONS = ("--profile-from-start", "off", "--clock-control", "none")
COUNTING_SHARE = 0.7
"""Of a task's time, for the tool that counts; the rest is left for torch's profiler."""
FACTS = 8
"""So many of a profile's facts are kept for the table."""


def main(arguments: Sequence[str] | None = None, device: str = "cuda") -> int:
    """Profile and write; returns 0, or 1 where there was nothing to profile."""
    out, vendor, seconds = list(sys.argv[1:] if arguments is None else arguments)
    folder, ends = Path(out) / "profile", time.monotonic() + float(seconds)
    chosen = slowest(_rows(Path(out)))
    if not chosen:
        sys.stderr.write("no bench has left a task; nothing to profile\n")
        return 1
    store = open_store(str(Path(out) / "runs.db"))
    found: list[dict[str, Any]] = []
    for number, row in enumerate(chosen):
        left = (ends - time.monotonic()) / (len(chosen) - number)
        sys.stderr.write(f"{row['task']}: up to {max(left, 0):.0f} s ...\n")
        place = folder / f"{number + 1}_{row['task']}"
        mode = _prepare(store, row["run_id"], place)
        found.append(_record(row, take(place, vendor, device, mode, left)))
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

    Where floors are unknown, those that take longest follow.
    """
    ran = [row for row in rows if row.get("run_id") and row.get("delivered_ms") is not None]
    one_each = {row["task"]: row for row in ran}.values()
    known = [row for row in one_each if row.get("floor_fraction") is not None]
    others = [row for row in one_each if row.get("floor_fraction") is None]
    known.sort(key=lambda row: float(row["floor_fraction"]))
    others.sort(key=lambda row: -float(row["delivered_ms"]))
    return [*known, *others][:count]


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


class Taken(NamedTuple):
    """A profile, and how many calls of the candidate are in it."""

    profile: Profile
    calls: int


def take(place: Path, vendor: str, device: str, mode: str, seconds: float) -> Taken:
    """Return a profile by counters where they can be read, else by torch's profiler.

    Its message then says why there are no counters.
    """
    if seconds <= 0:
        return Taken(Profile(tool="none", status=ProfileStatus.NO_TOOL, message="no time was left for it"), 1)
    said = []
    for tool in profilers_here(vendor):
        if tool in COUNTING:
            share = seconds * COUNTING_SHARE
            taken = COUNTING[tool](place, [device, mode], share)
            if taken.profile.status is ProfileStatus.PROFILED:
                return taken
            said.append(taken.profile.message)
    traced = _traced(place, [device, mode], seconds * (1 - COUNTING_SHARE))
    message = "; ".join(filter(None, [*(said or [no_tool(vendor).message]), traced.message]))
    return Taken(traced.model_copy(update={"message": message}), CALLS)


def _ncu(place: Path, how: list[str], seconds: float) -> Taken:
    """Count in one call alone, with the clocks as they are; what comes before it is not profiled."""
    command = ncu_command(_program(place, how, 1), launches=LAUNCHES)
    log = place / "ncu.txt"
    ran = run([command[0], *NCU_OPTIONS, *command[1:]], log, seconds)
    profile = parse_ncu(log.read_text(encoding="utf-8", errors="replace"))
    if ran.code is None and profile.status is not ProfileStatus.PROFILED:
        profile = profile.model_copy(update={"message": f"ncu did not end within {seconds:.0f} s"})
    return Taken(profile, 1)


def _rocprof(place: Path, how: list[str], seconds: float) -> Taken:
    """Count, else time; the warm-ups are in it."""
    folder, calls = place / "rocprof", CALLS + WARM_UPS
    timing, counting = rocprof_commands(_program(place, how, CALLS), folder)
    run(counting, place / "rocprof-counters.txt", seconds / 2)
    counted = _first_of(folder, "*_counter_collection.csv", parse_rocprof_counters)
    if counted.status is ProfileStatus.PROFILED:
        return Taken(counted, calls)
    run(timing, place / "rocprof-stats.txt", seconds / 2)
    timed = _first_of(folder, "*_kernel_stats.csv", parse_rocprof_stats)
    return Taken(
        timed.model_copy(update={"message": "; ".join(filter(None, [counted.message, timed.message]))}), calls
    )


def _first_of(folder: Path, pattern: str, parse: Callable[[str], Profile]) -> Profile:
    files = sorted(folder.rglob(pattern), key=lambda file: -file.stat().st_size)
    if not files:
        message = f"rocprofv3 left no {pattern}"
        return Profile(tool="rocprofv3", status=ProfileStatus.UNREADABLE, message=message)
    return parse(files[0].read_text(encoding="utf-8", errors="replace"))


def _traced(place: Path, how: list[str], seconds: float) -> Profile:
    trace = place / "trace.json"
    ran = run([*_program(place, how, CALLS), str(trace)], place / "torch.txt", seconds)
    if not trace.exists():
        words = ran.last_lines[-1] if ran.last_lines else "it wrote nothing"
        message = f"torch's profiler left no trace: {words}"
        return Profile(tool="none", status=ProfileStatus.NO_TOOL, message=message)
    return parse_torch_trace(trace.read_text(encoding="utf-8"))


def _program(place: Path, how: list[str], calls: int) -> list[str]:
    one_call = str(Path(__file__).with_name("one_call.py"))
    return [sys.executable, one_call, str(place), *how, str(calls)]


COUNTING = {"ncu": _ncu, "rocprofv3": _rocprof}
"""Tools that read counters, and how they are used."""


def _record(row: dict[str, Any], taken: Taken) -> dict[str, Any]:
    profile = taken.profile
    hottest, facts = profile.hottest, profile.facts(taken.calls)
    if profile.tool == "ncu" and sum(kernel.launches for kernel in profile.kernels) >= LAUNCHES:
        facts.pop("gpu.launches", None)  # as many as were asked for: there may be more
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

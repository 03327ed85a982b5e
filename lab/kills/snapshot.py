"""What a store holds of its one run, and what a kill has spoiled of it."""

import contextlib
import sqlite3
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from kernelwright.core.events import CandidateEvaluated, RunFinished
from kernelwright.core.run import RunState
from kernelwright.store.sqlstore import open_store


@dataclass(frozen=True)
class Snapshot:
    """What a store holds of its one run."""

    run_id: str | None = None
    is_finished: bool = False
    evaluations: tuple[tuple[str, bool, str], ...] = ()
    """Candidate, is_final, the whole evaluation as JSON; in order."""
    outcomes: tuple[str, ...] = ()
    """As JSON, without the run's id."""
    plans: tuple[str, ...] = ()
    """Winners in the plan archive."""
    winner: str | None = None
    source: str | None = None
    """The winner's."""
    has_gaps: bool = False
    n_events: int = 0


def snapshot(path: Path) -> Snapshot:
    """Read the store; empty where there is no run yet."""
    if count_events(path) is None:
        return Snapshot()
    store = open_store(path)
    with contextlib.closing(store):
        run = next(store.iter_runs(), None)
        if run is None:
            return Snapshot()
        stored = list(store.iter_events(run.run_id))
        events = [item.event for item in stored]
        closing = next((event for event in events if isinstance(event, RunFinished)), None)
        winner = closing.winner if closing else None
        return Snapshot(
            run_id=run.run_id,
            is_finished=run.state is RunState.FINISHED and closing is not None,
            evaluations=tuple(
                (e.candidate, e.evaluation.is_final, e.evaluation.model_dump_json())
                for e in events
                if isinstance(e, CandidateEvaluated)
            ),
            outcomes=tuple(o.model_dump_json(exclude={"run_id"}) for _, o in store.iter_outcomes()),
            plans=tuple(plan.best_source for _, plan in store.iter_plans()),
            winner=winner,
            source=store.get_candidate(winner, run.run_id).source if winner else None,
            has_gaps=[item.seq for item in stored] != list(range(1, len(stored) + 1)),
            n_events=len(stored),
        )


def count_events(path: Path) -> int | None:
    """Return how many events are stored; None while there is no run."""
    if not path.exists():
        return None
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1.0)) as database:
            (runs,) = database.execute("select count(*) from runs").fetchone()
            (events,) = database.execute("select count(*) from events").fetchone()
    except sqlite3.OperationalError:
        return None  # the tables are being made
    return int(events) if runs else None


def problems_between(before: Snapshot, after: Snapshot, whole: Snapshot | None) -> list[str]:
    """Return what a kill has spoiled; ``whole`` is an uninterrupted run that must have ended alike."""
    found = []
    if not after.is_finished:
        found.append("the run is not finished")
    if before.run_id is not None and before.run_id != after.run_id:
        found.append("it is another run")
    lost = [item[:2] for item in before.evaluations if item not in after.evaluations]
    if lost:
        found.append(f"lost or changed: {lost}")
    counted = Counter(item[:2] for item in after.evaluations)
    found += [f"evaluated {count} times: {key}" for key, count in counted.items() if count > 1]
    found += [f"{n} times in the ledger" for n in Counter(after.outcomes).values() if n > 1]
    if after.has_gaps:
        found.append("events are not numbered 1, 2, 3")
    if len(after.plans) > 1:
        found.append("more than one plan in the archive")
    if whole is not None:
        for name in ("evaluations", "outcomes", "plans", "winner"):
            if getattr(after, name) != getattr(whole, name):
                found.append(f"other {name} than those of an uninterrupted run")
    return found

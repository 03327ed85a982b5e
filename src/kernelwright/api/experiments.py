"""What benches and comparisons share: a title, runs that may fail one by one, their rows."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from kernelwright.core.errors import KernelwrightError, StoreError, UserError
from kernelwright.core.request import BenchRequest, CompareRequest
from kernelwright.core.run import RunSpec
from kernelwright.core.traces import write_trace
from kernelwright.report.judged import judged_on
from kernelwright.report.played import winner_of
from kernelwright.report.story import tell
from kernelwright.report.tables import BenchRow, row_from_story
from kernelwright.store.base import Store
from kernelwright.tasks.places import BenchTask


def title_for(request: BenchRequest | CompareRequest) -> str:
    """Return the name of the experiment that a request starts or goes on with."""
    return request.resume or request.name or f"{request.command}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def check_title(title: str, *, is_known: bool, is_resume: bool) -> None:
    """Raise UserError rather than mix two experiments under one name."""
    if is_known and not is_resume:
        raise UserError(f"there is an experiment {title!r} already; add --resume {title}, or name another")
    if is_resume and not is_known:
        raise UserError(f"there is no experiment {title!r} to resume; start it with --name {title}")


def check_place(specs: Iterable[RunSpec], title: str, request: BenchRequest | CompareRequest) -> None:
    """Raise UserError rather than mix figures of a fleet with those of the referee here."""
    had = {spec.machine.is_elsewhere for spec in specs}
    if had - {request.workers is not None}:
        how = "without --workers" if request.workers is not None else "with --workers"
        raise UserError(f"experiment {title!r} was judged on another machine; resume it {how}")


def failure_of(play: Callable[[], object], *fatal: type[Exception]) -> str | None:
    """Play a run; return why it failed, None when it did not: what fails one run must not cost the others.

    A store that fails, and what is ``fatal`` besides, is raised.
    """
    try:
        play()
    except KernelwrightError as error:
        if isinstance(error, (StoreError, *fatal)):
            raise
        return " ".join(str(error).split())
    except Exception as error:  # a border: a defect on one task must not cost the others
        return f"{type(error).__name__}: {error}; traceback in {write_trace(error)}"
    return None


def row_of(store: Store, run_id: str, entry: BenchTask, failure: str | None, label: str = "") -> BenchRow:
    """Return the row of a run that has ended or failed."""
    story = tell(stored.event for stored in store.iter_events(run_id))
    return row_from_story(
        story,
        task=label or entry.task.name,
        task_id=entry.task.id,
        category=entry.category,
        group=entry.group,
        run_id=run_id,
        failure=failure,
        winner=winner_of(store, run_id, story),
        device=judged_on(store.get_run(run_id).spec, story),
    )

"""What an interrupted run leaves behind: its best kernel so far, its report, how to carry it on."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from kernelwright.cli.output import print_json, say
from kernelwright.cli.signals import interruptible
from kernelwright.report.files import write_text
from kernelwright.report.measures import speedup_over

if TYPE_CHECKING:
    from kernelwright.runs.interruption import BestSoFar
    from kernelwright.store.base import Store

EXIT_INTERRUPTED = 130


@contextlib.contextmanager
def leaving(leave: Callable[[], NoReturn]) -> Iterator[None]:
    """Have an interruption of the block, by Ctrl-C or a signal, end in ``leave``."""
    with interruptible() as signals:
        try:
            yield
        except (KeyboardInterrupt, OSError) as error:
            # A display on a terminal that was closed fails too, and in the interruption's place.
            if not (isinstance(error, KeyboardInterrupt) or signals.has_come):
                raise
            leave()


def keeping(
    what_is_kept: str, *, as_json: bool, resume_with: str | None = None
) -> contextlib.AbstractContextManager[None]:
    """Have an interruption say what is kept and how to carry on, and exit with 130."""

    def leave() -> NoReturn:
        carry_on = f". Carry on with: {resume_with}" if resume_with else ""
        more = {"resume_with": resume_with} if resume_with else {}
        with contextlib.suppress(OSError):
            say(f"interrupted; {what_is_kept}{carry_on}")
            if as_json:
                print_json({"interrupted": True, **more, "exit_code": EXIT_INTERRUPTED})
        raise typer.Exit(EXIT_INTERRUPTED)

    return leaving(leave)


def deliver_best(
    store: "Store", run_id: str, kernel_path: Path, report_path: Path, *, resume_with: str, as_json: bool
) -> NoReturn:
    """Write the best verified kernel so far and the report, say how to carry on and exit with 130.

    Files come first: where a terminal was closed nothing can be said any more.
    """
    # lazy: loads torch
    from kernelwright.report.html import render_report
    from kernelwright.runs.interruption import best_so_far

    best = best_so_far(store, run_id)
    if best is not None:
        write_text(kernel_path, _mark(best, run_id) + best.candidate.source)
    write_text(report_path, render_report(store, run_id))
    document = {
        "interrupted": True,
        "run_id": run_id,
        "kernel": kernel_path if best else None,
        "report": report_path,
        "evaluation": best.evaluation if best else None,
        "resume_with": resume_with,
        "exit_code": EXIT_INTERRUPTED,
    }
    with contextlib.suppress(OSError):
        found = f"best so far {_standing(best)}: {kernel_path}" if best else "nothing faster was verified yet"
        say(f"{found}. Report: {report_path}")
        say(f"interrupted; what was finished is kept. Carry on with: {resume_with}")
        if as_json:
            print_json(document)
    raise typer.Exit(EXIT_INTERRUPTED)


def _standing(best: "BestSoFar") -> str:
    how = "measured again" if best.evaluation.is_final else "verified by the search, not measured again"
    return f"{speedup_over(best.evaluation, 'eager')} over eager, {how}"


def _mark(best: "BestSoFar", run_id: str) -> str:
    return f"# Interrupted: {_standing(best)}.\n# Carry the run on with: kernelwright runs resume {run_id}\n"

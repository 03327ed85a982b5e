"""``kernelwright evaluate``: the referee's verdict on any ModelNew, whoever wrote it."""

from typing import TYPE_CHECKING

import typer

from kernelwright.cli.interruption import keeping
from kernelwright.cli.options import AsJson, takes
from kernelwright.cli.output import print_json, print_table, print_verdict, say, stdout, tell
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.request import EvaluateRequest
from kernelwright.report.measures import percent
from kernelwright.report.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernelwright.report.results import KernelComparison

LOG_LINES = 20
ERRORS = ("workload", "inputs", "output", "error", "reference's", "allowed", "used")
TIMINGS = ("workload", "what", "median", "10 to 90 %", "kernel's speedup over it")


@takes(EvaluateRequest)
def evaluate(request: EvaluateRequest, *, as_json: AsJson = False) -> None:
    """Verify and time kernels; exits 0 only when all of them are verified."""
    # lazy: loads much
    from kernelwright import api

    verdicts = api.run_evaluate(request, tell=say)
    names = tuple(str(kernel.title if kernel.kind == "text" else kernel) for kernel in request.kernels)
    with keeping("nothing was kept", as_json=as_json):
        found = tuple(_judge(request, names, verdicts, as_json=as_json))
    if len(found) > 1:
        # lazy: not needed for one kernel
        from kernelwright.report.results import KernelComparison

        result = KernelComparison(request.task.title, names, found)
        _show_several(result, as_json=as_json)
    elif as_json:
        print_json(found[0])
    raise typer.Exit(0 if all(evaluation.is_verified for evaluation in found) else 1)


def _judge(
    request: EvaluateRequest, names: tuple[str, ...], verdicts: "Iterator[Evaluation]", *, as_json: bool
) -> "Iterator[Evaluation]":
    """Yield the verdicts, each shown when it comes."""
    for name in names:
        say(f"judging {name} against {request.task.title} ...")
        evaluation = next(verdicts)
        if not as_json:
            if len(names) > 1:
                tell(f"{name}:")
            show(evaluation)
        yield evaluation
    next(verdicts, None)


def _show_several(result: "KernelComparison", *, as_json: bool) -> None:
    if as_json:
        print_json(result.document())
        return
    print_table(result.tables()[0])
    tell(f"fastest: {result.best}" if result.best else "none is verified")


def show(evaluation: Evaluation) -> None:
    """Print the verdict, what led to it, errors and timings."""
    # lazy: there is time for it while the referee is at work, and JSON needs none of it
    from kernelwright.report.verdict import evaluation_verdict

    print_verdict(evaluation_verdict(evaluation))
    console = stdout()
    if evaluation.log and not evaluation.is_verified:
        tell("\n".join(evaluation.log.splitlines()[-LOG_LINES:]))
    if evaluation.errors:
        print_table(_errors(evaluation))
    for family, why in evaluation.families_skipped.items():
        tell(f"not used: {family.replace('_', ' ')} ({why})")
    if evaluation.results:
        print_table(_timings(evaluation))
    for note in evaluation.notes:
        tell(f"note: {note}")
    if evaluation.sandbox is not None:
        console.print(f"sandbox: {evaluation.sandbox}")


def _errors(evaluation: Evaluation) -> Table:
    # lazy: as above
    from kernelwright.report.sections import error_rows

    rows, styles = [], []
    for row in error_rows(evaluation.errors):
        used = percent(row.share) if row.share < 10 else f"{row.share:.3g} times"
        cells = (row.workload, row.family.replace("_", " "), row.output)
        rows.append((*cells, row.error, row.reference_error, row.allowed, used))
        styles.append("red" if row.share > 1 else "")
    return Table(ERRORS, rows, styles, numbers=ERRORS[3:], spare=("reference's",))


def _timings(evaluation: Evaluation) -> Table:
    # lazy: as above
    from kernelwright.report.sections import timing_rows

    rows = [(row.workload, row.what, row.median, row.spread, row.speedup) for row in timing_rows(evaluation)]
    return Table(TIMINGS, rows, numbers=TIMINGS[2:], spare=("10 to 90 %",))

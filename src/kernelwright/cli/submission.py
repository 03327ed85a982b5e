"""``kernelwright submission``: somebody's whole KernelBench run before the referee."""

from pathlib import Path

import typer

from kernelwright.cli.interruption import keeping
from kernelwright.cli.options import AsJson, takes
from kernelwright.cli.output import print_results, saver, say, tell
from kernelwright.core.request import SubmissionRequest
from kernelwright.report.files import make_folder


@takes(SubmissionRequest)
def submission(request: SubmissionRequest, *, as_json: AsJson = False) -> None:
    """Judge every kernel of a KernelBench run; exits 0 when no claim of correctness was refuted, else 1."""
    # lazy: loads torch
    from kernelwright.api.submissions import run_submission

    folder = make_folder(Path(request.out)) if request.out else None

    kept = f"what was judged is in {folder}" if folder else "nothing was kept"
    with keeping(kept, as_json=as_json):
        result = run_submission(
            request,
            on_row=lambda row: say(f"{row.key.file}: {_word(row.evaluation, row.reason)}"),
            on_result=saver(folder),
        )
    print_results(result, as_json=as_json)
    if result.n_not_judged and not as_json:
        n_here = result.n_problems_here
        tell(f"not judged here: {result.n_not_judged} kernels; our shares are of {n_here} problems")
    raise typer.Exit(0 if result.is_success else 1)


def _word(evaluation: object, reason: str) -> str:
    status = getattr(evaluation, "status", None)
    return str(status).replace("_", " ") if status is not None else f"not judged: {reason}"

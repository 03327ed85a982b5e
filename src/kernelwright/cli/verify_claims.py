"""``kernelwright verify-claims``: published kernels before the referee, beside what was claimed of them."""

from pathlib import Path

import typer

from kernelwright.cli.interruption import keeping
from kernelwright.cli.options import AsJson, takes
from kernelwright.cli.output import print_results, saver, say
from kernelwright.core.request import ClaimsRequest
from kernelwright.report.files import make_folder


@takes(ClaimsRequest)
def verify_claims(request: ClaimsRequest, *, as_json: AsJson = False) -> None:
    """Judge published kernels beside what was claimed; exits 1 when a claim of correctness was refuted.

    What needs a GPU is inspected by its compiler where there is none. docs/formats.md describes claims.json.
    """
    # lazy: loads torch
    from kernelwright.api.claims import run_claims

    folder = make_folder(Path(request.out)) if request.out else None

    kept = f"what was judged is in {folder}" if folder else "nothing was kept"
    with keeping(kept, as_json=as_json):
        result = run_claims(
            request,
            on_row=lambda row: say(f"{row.claim.title}: {row.meaning} {row.measured or ''}".rstrip()),
            on_result=saver(folder),
        )
    print_results(result, as_json=as_json)
    raise typer.Exit(0 if result.is_success else 1)

"""``kernelwright audit``: the referee against every cheat and hostile program we know."""

from pathlib import Path

import typer

from kernelwright.cli.interruption import keeping
from kernelwright.cli.options import AsJson, takes
from kernelwright.cli.output import print_json, print_table, saver, tell
from kernelwright.core.request import AuditRequest
from kernelwright.report.files import require_writable


@takes(AuditRequest)
def audit(request: AuditRequest, *, as_json: AsJson = False) -> None:
    """Judge every known cheat and hostile program; exits 1 when one did not end as it must.

    The files in --out are written after every verdict.
    """
    # lazy: loads torch
    from kernelwright import api

    folder = None if request.out is None else require_writable(Path(request.out) / "cheats.md").parent

    kept = f"what was judged is in {folder}, go on with --resume" if folder else "nothing was kept"
    with keeping(kept, as_json=as_json):
        result = api.run_audit(request, progress=True, on_result=saver(folder))
    if as_json:
        print_json(result.document())
    else:
        print_table(result.tables()[0])
        tell(result.summary)
    raise typer.Exit(0 if result.is_success else 1)

"""``kernelwright check``: what is wrong with a task, before anyone trusts a speedup on it."""

from pathlib import Path

import typer

from kernelwright.cli.interruption import keeping
from kernelwright.cli.options import AsJson, takes
from kernelwright.cli.output import print_json, print_table, print_verdict, saver, tell
from kernelwright.core.request import CheckRequest
from kernelwright.report.checkups import checkup_verdict, counts_line
from kernelwright.report.files import make_folder


@takes(CheckRequest)
def check(request: CheckRequest, *, as_json: AsJson = False) -> None:
    """Say what is wrong with tasks; exits 0 when nothing is worse than a note, else 1."""
    # lazy: loads torch
    from kernelwright import api

    folder = make_folder(Path(request.out)) if request.out else None

    kept = f"results are in {folder}, go on with --resume" if folder else "nothing was kept"
    with keeping(kept, as_json=as_json):
        result = api.run_check(request, progress=True, on_result=saver(folder))
    if as_json:
        print_json(result.document())
    elif len(result.checkups) == 1:
        print_verdict(checkup_verdict(result.checkups[0]))
    else:
        print_table(result.tables()[0])
        tell(f"\n{counts_line(result.checkups)}")
    raise typer.Exit(0 if result.is_success else 1)

"""``kernelwright tune``: the parameters that a kernel leaves open, closed by cheap timings."""

from pathlib import Path

import typer

from kernelwright.cli.evaluate import show
from kernelwright.cli.interruption import keeping
from kernelwright.cli.options import AsJson, takes
from kernelwright.cli.output import print_json, say, tell
from kernelwright.core.request import TuneRequest
from kernelwright.report.files import require_writable, write_text


@takes(TuneRequest)
def tune(request: TuneRequest, *, as_json: AsJson = False) -> None:
    """Close what a kernel leaves open in TUNE, or choose among generated programs by cheap timings."""
    # lazy: loads torch
    from kernelwright import api

    if request.output is not None:
        require_writable(Path(request.output))
    folder = None if request.out is None else require_writable(Path(request.out) / "tuned.json").parent
    with keeping("nothing was kept", as_json=as_json):
        say(f"timing points for {request.seconds:g} s ...")
        result = api.run_tune(request)
    if request.output is not None and result.is_success:
        write_text(Path(request.output), result.source)
    if folder is not None:
        result.save(folder)
    if as_json:
        print_json(result.document())
    else:
        tell(result.headline)
        for line in result.surface:
            tell(f"  {line}")
        if result.evaluation is not None:
            show(result.evaluation)
    raise typer.Exit(0 if result.is_success else 1)

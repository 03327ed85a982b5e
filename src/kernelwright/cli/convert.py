"""``kernelwright convert``: formats of other benchmarks and libraries, in and out."""

from typing import TYPE_CHECKING

import typer

from kernelwright.cli.options import AsJson, takes
from kernelwright.cli.output import print_json, say, tell
from kernelwright.core.request import ExportRequest, ImportRequest

if TYPE_CHECKING:
    from kernelwright.api.converting import Conversion

app = typer.Typer(help="Formats of other benchmarks: import, export.", no_args_is_help=True)


@takes(ImportRequest)
def import_(request: ImportRequest, *, as_json: AsJson = False) -> None:
    """Make task and kernel files of another benchmark's files; see docs/formats.md."""
    # lazy: loads torch
    from kernelwright.api.converting import run_import

    _show(run_import(request), as_json=as_json)


@takes(ExportRequest)
def export(request: ExportRequest, *, as_json: AsJson = False) -> None:
    """Write a task with its kernels and verdicts in another format; see docs/formats.md."""
    # lazy: loads torch
    from kernelwright.api.converting import run_export

    _show(run_export(request), as_json=as_json)


def _show(done: "Conversion", *, as_json: bool) -> None:
    for note in done.notes:
        say(f"note: {note}")
    if as_json:
        print_json(done.document())
        return
    for path in done.files:
        tell(str(path))


app.command(name="import")(import_)
app.command(name="export")(export)

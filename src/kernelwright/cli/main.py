"""The program: its commands, and the one border at which exceptions become a line and an exit code.

Exit codes: 0 done, and verified where something was to be verified; 1 the kernel is not verified, or
the run did not end verified; 2 the input, the machine or we are at fault; 130 interrupted.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from kernelwright.cli import (
    audit,
    bench,
    check,
    compare,
    convert,
    doctor,
    evaluate,
    inspect,
    mcp,
    memory,
    optimize,
    runs,
    serve,
    skills,
    space,
    submission,
    tune,
)
from kernelwright.cli.output import print_error, print_json
from kernelwright.core.errors import KernelwrightError
from kernelwright.core.traces import write_trace
from kernelwright.core.version import __version__

EXIT_FAULT = 2

app = typer.Typer(
    name="kernelwright",
    help="Turns a PyTorch module into a faster one that is proven to compute the same thing.",
    epilog="Exit codes: 0 verified or done; 1 not verified; 2 input, machine or program at fault; "
    "130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command(name="optimize")(optimize.optimize)
app.command(name="evaluate")(evaluate.evaluate)
app.command(name="inspect")(inspect.inspect)
app.command(name="audit")(audit.audit)
app.command(name="check")(check.check)
app.command(name="space")(space.space)
app.command(name="submission")(submission.submission)
app.command(name="tune")(tune.tune)
app.command(name="bench")(bench.bench)
app.command(name="compare")(compare.compare)
app.add_typer(runs.app, name="runs")
app.add_typer(skills.app, name="skills")
app.add_typer(memory.app, name="memory")
app.add_typer(convert.app, name="convert")
app.command(name="serve")(serve.serve)
app.command(name="mcp")(mcp.mcp)
app.command(name="doctor")(doctor.doctor)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"kernelwright {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Turn a PyTorch module into a faster one that is proven to compute the same thing."""


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line and return its exit code; no exception passes."""
    try:
        app(args=list(arguments), prog_name="kernelwright")
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 0
    except KernelwrightError as error:
        return _fail(str(error), arguments)
    except Exception as error:  # the border: a defect of ours becomes a line and a file
        trace = write_trace(error)
        return _fail(f"{type(error).__name__}: {error}; a defect of ours, traceback in {trace}", arguments)
    return 0


def _fail(message: str, arguments: Sequence[str]) -> int:
    print_error(message)
    if "--json" in arguments:
        print_json({"error": " ".join(message.split()), "exit_code": EXIT_FAULT})
    return EXIT_FAULT


def main() -> None:
    """Entry point of ``kernelwright``."""
    sys.exit(run(sys.argv[1:]))

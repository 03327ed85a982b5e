"""The program: its commands, and the one border at which exceptions become a line and an exit code.

Exit codes: 0 done, and verified where something was to be verified; 1 the kernel is not verified, the run
did not end verified, or a check found something; 2 the input, the machine or we are at fault;
130 interrupted.
"""

import logging
import sys
import time
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated

import typer
from typer.main import get_command

from kernelwright.cli.logs import add_options, told
from kernelwright.cli.output import print_error, print_json
from kernelwright.core.errors import KernelwrightError
from kernelwright.core.traces import write_trace
from kernelwright.core.version import __version__

_log = logging.getLogger(__name__)

EXIT_FAULT = 2
COMMANDS = (
    "optimize", "evaluate", "inspect", "audit", "check", "space", "submission", "verify-claims", "tune",
    "bench", "compare",
)  # fmt: skip
GROUPS = ("runs", "store", "skills", "memory", "convert")
NAMES = (*COMMANDS, *GROUPS, "dashboard", "serve", "mcp", "doctor")
"""In the order of the help; each is a module of this package, with a function or an ``app`` in it."""


def make_app(names: Iterable[str] = NAMES) -> typer.Typer:
    """Return the program with these commands; the modules of others are not loaded, which takes long."""
    app = typer.Typer(
        name="kernelwright",
        help="Turns a PyTorch module into a faster one that is proven to compute the same thing.",
        epilog="Exit codes: 0 verified or done; 1 not verified, or a check found something; 2 input, machine "
        "or program at fault; 130 interrupted.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for name in names:
        function = name.replace("-", "_")
        module = import_module(f"kernelwright.cli.{function}")
        if name in GROUPS:
            app.add_typer(module.app, name=name)
        else:
            app.command(name=name)(getattr(module, function))
    return app


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"kernelwright {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Turn a PyTorch module into a faster one that is proven to compute the same thing."""


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line and return its exit code; no exception passes."""
    begin = time.monotonic()
    with told():
        code = _carry_out(arguments)
        if _log.isEnabledFor(logging.INFO):
            # lazy: SQLAlchemy takes a while to load
            from kernelwright.store.address import shown_command

            seconds = round(time.monotonic() - begin, 3)
            fields = {"command": shown_command(arguments), "exit_code": code, "seconds": seconds}
            _log.info("ended", extra={"fields": fields})
        return code


def _carry_out(arguments: Sequence[str]) -> int:
    first = next((word for word in arguments if not word.startswith("-")), "")
    names = (first,) if first in NAMES else NAMES
    try:
        add_options(get_command(make_app(names)))(args=list(arguments), prog_name="kernelwright")
    except SystemExit as exit_:
        if isinstance(exit_.code, int):
            return exit_.code
        return _fail(f"a module that was run asked to exit: {exit_.code or 'it gives no reason'}", arguments)
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

"""Where words go: results to stdout, progress to stderr, one JSON document when it is asked for."""

import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, JustifyMethod
from rich.panel import Panel
from rich.table import Table as RichTable
from rich.text import Text

from kernelwright.cli.logs import VOICE
from kernelwright.core.visible import visible_line, visible_lines
from kernelwright.report.console import make_console
from kernelwright.report.files import json_text
from kernelwright.report.table import Table

if TYPE_CHECKING:
    from kernelwright.report.results import Results
    from kernelwright.report.verdict import Verdict

_log = logging.getLogger(__name__)

WIDE = 110
"""Columns of a terminal from which tables have all of theirs."""
_STYLES = {"good": "bold green", "neutral": "bold", "bad": "bold red"}


def stdout() -> Console:
    """Return the console for results."""
    return make_console(is_stderr=False)


def stderr() -> Console:
    """Return the console for progress and messages."""
    return make_console(is_stderr=True)


def say(text: str) -> None:
    """Print a line about what is done on stderr."""
    if VOICE.is_json:
        _log.info("%s", visible_lines(text))
    elif not VOICE.is_quiet:
        stderr().print(text, soft_wrap=True)


def tell(text: str) -> None:
    """Print a line of a result on stdout."""
    stdout().print(text, soft_wrap=True)


def print_json(document: Any) -> None:
    """Print one JSON document (see json_text), at once: who reads a pipe may wait for it."""
    sys.stdout.write(json_text(document))
    sys.stdout.flush()


def print_table(table: Table, *, whole: Sequence[str] = ()) -> None:
    """Print a table; columns named in ``whole`` are never wrapped.

    Spare ones are left out of a terminal of fewer than ``WIDE`` columns, and a line says so.
    """
    console = stdout()
    if table.spare and console.is_terminal and console.width < WIDE:
        kept = [i for i, name in enumerate(table.header) if name not in table.spare]
        rows = [[row[i] for i in kept] for row in table.rows]
        header = [table.header[i] for i in kept]
        print_table(table._replace(header=header, rows=rows, spare=()), whole=whole)
        left = ", ".join(table.spare)
        console.print(f"[dim]Not shown in {console.width} columns: {left} (--json has all)[/dim]")
        return
    shown = RichTable(box=None, padding=(0, 2, 0, 0), header_style="bold", show_header=any(table.header))
    for i, name in enumerate(table.header):
        justify: JustifyMethod = "right" if table.is_number(i) else "left"
        shown.add_column(name, justify=justify, no_wrap=name in whole, overflow="fold")
    for row, style in zip(table.rows, table.styles or [""] * len(table.rows), strict=True):
        shown.add_row(*map(visible_lines, row), style=style)
    console.print(shown)


def saver(folder: Path | None) -> Callable[["Results"], object]:
    """Return what writes results into a folder, each time in the place of the last; None: it does nothing."""
    return lambda result: None if folder is None else result.save(folder)


def print_results(result: "Results", *, as_json: bool) -> None:
    """Print what an experiment came to: one JSON document, or its tables."""
    if as_json:
        print_json(result.document())
        return
    for table in result.tables():
        print_table(table)


def print_verdict(verdict: "Verdict", *more: str) -> None:
    """Print a verdict, framed on a terminal and as plain lines elsewhere."""
    console = stdout()
    headline, *lines = map(visible_lines, (verdict.headline, *verdict.lines, *more))
    if not console.is_terminal:
        for line in (headline, *lines):
            console.print(line, soft_wrap=True)
        return
    body = Text("\n").join([Text(headline, style=_STYLES[verdict.tone]), *map(Text, lines)])
    console.print(Panel(body, border_style=_STYLES[verdict.tone].split()[-1], padding=(1, 2)))


def print_error(message: str) -> None:
    """Print one line about what went wrong on stderr."""
    if VOICE.is_json:
        _log.error("%s", visible_line(" ".join(message.split())))
        return
    console = stderr()
    line = Text("error: ", style="bold red") + Text(visible_line(" ".join(message.split())))
    console.print(line, soft_wrap=True)

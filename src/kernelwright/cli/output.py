"""Where words go: results to stdout, progress to stderr, one JSON document when it is asked for."""

import json
import math
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from kernelwright.core.errors import UserError
from kernelwright.report.verdict import Verdict

WIDE = 160
"""Columns where there is no terminal to ask: files and pipes should not be wrapped at 80."""
_STYLES = {"good": "bold green", "neutral": "bold", "bad": "bold red"}


def stdout() -> Console:
    """Return the console for results."""
    return _console(is_stderr=False)


def stderr() -> Console:
    """Return the console for progress and messages."""
    return _console(is_stderr=True)


def _console(*, is_stderr: bool) -> Console:
    stream = sys.stderr if is_stderr else sys.stdout
    width = None if stream.isatty() else WIDE
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def print_json(document: Any) -> None:
    """Print one JSON document (see json_text), at once: who reads a pipe may wait for it."""
    sys.stdout.write(json_text(document))
    sys.stdout.flush()


def json_text(document: Any) -> str:
    """Return strict JSON: records of ours are dumped, paths become text, infinities and NaN null."""
    return json.dumps(_finite(to_jsonable_python(document, fallback=str)), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_verdict(verdict: Verdict, *more: str) -> None:
    """Print a verdict, framed on a terminal and as plain lines elsewhere."""
    console = stdout()
    if not console.is_terminal:
        for line in (verdict.headline, *verdict.lines, *more):
            console.print(line, soft_wrap=True)
        return
    body = Text("\n").join(
        [Text(verdict.headline, style=_STYLES[verdict.tone]), *map(Text, (*verdict.lines, *more))]
    )
    console.print(Panel(body, border_style=_STYLES[verdict.tone].split()[-1], padding=(1, 2)))


def print_error(message: str) -> None:
    """Print one line about what went wrong on stderr."""
    console = stderr()
    line = Text("error: ", style="bold red") + Text(" ".join(message.split()))
    console.print(line, soft_wrap=True)


def require_writable(path: Path) -> Path:
    """Return the path if a file can be written there; raises UserError before any work is spent.

    Folders on the way are created.
    """
    if path.is_dir():
        raise UserError(f"cannot write {path}: it is a folder; name a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        existed = path.exists()
        path.open("a", encoding="utf-8").close()
        if not existed:
            path.unlink()
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; name another place") from error
    return path


def write_text(path: Path, text: str) -> Path:
    """Write a result file; raises UserError when that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; name another place") from error
    return path


def write_trace(error: Exception) -> Path:
    """Write an exception's traceback to a temporary file and return where."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="kernelwright-", suffix=".traceback.txt", delete=False, encoding="utf-8"
    ) as file:
        file.writelines(traceback.format_exception(error))
    return Path(file.name)

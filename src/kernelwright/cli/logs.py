"""What is told on stderr while a command works: the options -v, -q and --log-json of every command."""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from typer.main import get_command

from kernelwright.core.visible import visible_line
from kernelwright.report import console


@dataclass
class Voice:
    """What the command line that is carried out asked for."""

    more: int = 0
    """How often -v was given."""
    is_quiet: bool = False
    is_json: bool = False

    @property
    def level(self) -> int:
        """The least level that is told."""
        if self.is_quiet:
            return logging.ERROR
        steps = (logging.INFO, logging.DEBUG) if self.is_json else (logging.WARNING, logging.INFO)
        return (*steps, logging.DEBUG)[min(self.more, 2)]


VOICE = Voice()
"""Of the command line that is carried out; one process carries out one at a time."""


@contextmanager
def told() -> Iterator[Voice]:
    """Carry out a command line whose options may say what is told; afterwards all is as before."""
    root, ours = logging.getLogger(), logging.getLogger("kernelwright")
    before = list(root.handlers), ours.level
    try:
        yield VOICE
    finally:
        root.handlers[:], level = before
        ours.setLevel(level)
        console.mute(False)
        logging.captureWarnings(False)
        VOICE.more, VOICE.is_quiet, VOICE.is_json = 0, False, False


def add_options(command: Any) -> Any:
    """Give the options to a command, and to all commands of a group."""
    command.params += get_command(_options()).params
    for one in getattr(command, "commands", {}).values():
        add_options(one)
    return command


def _options() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command()(_set)
    return app


def _more(value: int) -> None:
    if value:
        VOICE.more += value
        _begin()


def _quiet(value: bool) -> None:
    if value:
        VOICE.is_quiet = True
        _begin()


def _json(value: bool) -> None:
    if value:
        VOICE.is_json = True
        _begin()


def _option(flags: tuple[str, ...], set_: Callable[..., None], help_: str, *, count: bool = False) -> Any:
    return typer.Option(
        *flags,
        count=count,
        callback=set_,
        is_eager=True,
        expose_value=False,
        help=help_,
        rich_help_panel="Messages",
        show_default=False,
    )


def _set(
    verbose: Annotated[
        int, _option(("-v", "--verbose"), _more, "Tell more of what is done; -vv tells all.", count=True)
    ] = 0,
    quiet: Annotated[
        bool, _option(("-q", "--quiet"), _quiet, "Tell nothing but the result and errors.")
    ] = False,
    log_json: Annotated[
        bool, _option(("--log-json",), _json, "Tell what is done as JSON, one object a line, on stderr.")
    ] = False,
) -> None:
    """Stand for the options in one place; their callbacks do the work."""


def _begin() -> None:
    """Tell what the voice says from now on, and no more."""
    console.mute(VOICE.is_quiet or VOICE.is_json)
    logging.captureWarnings(VOICE.is_json)
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, _OnStderr):
            root.removeHandler(handler)
    handler = _OnStderr(VOICE.level)
    handler.setFormatter(_AsJson() if VOICE.is_json else _AsText())
    root.addHandler(handler)
    logging.getLogger("kernelwright").setLevel(VOICE.level)


class _OnStderr(logging.Handler):
    """Writes to whatever stderr is at the time: a live display puts itself in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except OSError:  # nobody reads any more
            pass
        except Exception:
            self.handleError(record)


class _AsText(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        fields = (f"{name}={value}" for name, value in _fields(record).items())
        words = " ".join([record.getMessage(), *fields])
        return visible_line(f"{at} {record.levelname.lower()} {record.name}: {' '.join(words.split())}")


class _AsJson(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(_fields(record) | line, default=str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return what was told beside the message."""
    fields = getattr(record, "fields", None)
    return dict(fields) if isinstance(fields, dict) else {}

"""What is told on stderr while a command works: the options -v, -q and --log-json of every command."""

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from typer.core import TyperGroup, TyperOption

from kernelwright.core.visible import visible_line
from kernelwright.report import console

PANEL = "Messages"


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
    command.params += [
        TyperOption(
            param_decls=["-v", "--verbose"],
            count=True,
            expose_value=False,
            callback=_set_more,
            is_eager=True,
            help="Tell more of what is done; -vv tells all.",
            rich_help_panel=PANEL,
            show_default=False,
        ),
        TyperOption(
            param_decls=["-q", "--quiet"],
            is_flag=True,
            expose_value=False,
            callback=_set_quiet,
            is_eager=True,
            help="Tell nothing but the result and errors.",
            rich_help_panel=PANEL,
            show_default=False,
        ),
        TyperOption(
            param_decls=["--log-json"],
            is_flag=True,
            expose_value=False,
            callback=_set_json,
            is_eager=True,
            help="Tell what is done as JSON, one object a line, on stderr.",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ]
    if isinstance(command, TyperGroup):
        for one in command.commands.values():
            add_options(one)
    return command


def _set_more(context: Any, parameter: Any, value: int) -> None:
    if value:
        VOICE.more += value
        _begin()


def _set_quiet(context: Any, parameter: Any, value: bool) -> None:
    if value:
        VOICE.is_quiet = True
        _begin()


def _set_json(context: Any, parameter: Any, value: bool) -> None:
    if value:
        VOICE.is_json = True
        _begin()


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

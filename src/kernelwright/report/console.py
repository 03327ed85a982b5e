"""The consoles that words go to."""

import sys

from rich.console import Console

WIDE = 160
"""Columns where there is no terminal to ask: files and pipes should not be wrapped at 80."""


_muted = False


def mute(is_muted: bool) -> None:
    """Show no progress from now on, whoever asks for it; or show it again."""
    global _muted
    _muted = is_muted


def is_muted() -> bool:
    """Tell whether no progress is to be shown."""
    return _muted


def make_console(*, is_stderr: bool) -> Console:
    """Return a console on one of the process's streams, as wide as its terminal where it is one."""
    stream = sys.stderr if is_stderr else sys.stdout
    width = None if stream.isatty() else WIDE
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)

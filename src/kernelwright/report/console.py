"""The consoles that words go to."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from kernelwright.core.visible import visible_lines

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


class PlainConsole(Console):
    """Shows words as they are: nothing in them is markup, and no hidden character reaches the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the pieces to be shown; rich's own controls, such as moves of the cursor, stay."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(visible_lines(piece.text), piece.style)


def make_console(*, is_stderr: bool) -> PlainConsole:
    """Return a console on one of the process's streams, as wide as its terminal where it is one."""
    stream = sys.stderr if is_stderr else sys.stdout
    width = None if stream.isatty() else WIDE
    return PlainConsole(file=stream, width=width)

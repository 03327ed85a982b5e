"""Signals that end a command: the first is an interruption, the second ends it at once."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, containers and Slurm, a terminal that closes: all the same to a run."""


class Interruption:
    """What came while a command was at work."""

    def __init__(self) -> None:
        self.has_come = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt the first time; end the process by the signal itself the second time."""
        if self.has_come:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.has_come = True
        raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible() -> Iterator[Interruption]:
    """Treat SIGTERM and SIGHUP as Ctrl-C while a command is at work.

    A signal that is ignored, as under ``nohup``, stays ignored. In another thread than the main one nothing
    changes.
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    found = {number: signal.getsignal(number) for number in ENDING}
    taken = {number: handler for number, handler in found.items() if handler not in (signal.SIG_IGN, None)}
    for number in taken:
        signal.signal(number, interruption.handle)
    try:
        yield interruption
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)

"""Runs a part's command for so long and no longer, and says how it ended."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 10.0
"""Between being asked to end and being killed: what is half done is written then."""
LAST_LINES = 15


@dataclass(frozen=True)
class Ran:
    """How a command ended; ``code`` None: its time was up."""

    code: int | None
    seconds: float
    last_lines: tuple[str, ...]


def run(
    command: Sequence[str],
    log: Path,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    grace_s: float = GRACE_S,
) -> Ran:
    """Run a command with all that it writes going to a file; its whole session ends with it.

    When its time is up it is interrupted, and killed after the grace. A command that cannot be started has
    ended with 127.
    """
    started = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
                start_new_session=True,
                preexec_fn=_hear_interrupts,
            )
        except OSError as error:
            return Ran(127, 0.0, (f"cannot be started: {error}",))
        try:
            code = _wait(process, timeout_s, grace_s)
        finally:
            _kill(process)
    return Ran(code, time.monotonic() - started, last_lines(log))


def _hear_interrupts() -> None:
    """Undo that SIGINT is ignored, which a job in the background of a script inherits."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _wait(process: "subprocess.Popen[bytes]", timeout_s: float, grace_s: float) -> int | None:
    try:
        return process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=grace_s)
    return None


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_lines(log: Path, count: int = LAST_LINES) -> tuple[str, ...]:
    """Return the end of what was written, without empty lines."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return tuple(line.rstrip()[:400] for line in lines if line.strip())[-count:]

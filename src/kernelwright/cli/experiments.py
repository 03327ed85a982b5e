"""What commands that run an experiment of many runs share: its folder, and how it is carried on."""

import sys
from pathlib import Path

from kernelwright.core.errors import UserError


def make_folder(folder: Path) -> Path:
    """Create the folder for the results; raises UserError before any work is spent."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}; name another with --out") from error
    return folder


def resume_command(title: str) -> str:
    """Return the command line at work, as one that carries the experiment on."""
    words = [word for word in sys.argv[1:] if not word.startswith("--name=")]
    if "--name" in words:
        at = words.index("--name")
        del words[at : at + 2]
    has_resume = any(word == "--resume" or word.startswith("--resume=") for word in words)
    return shown(["kernelwright", *words, *([] if has_resume else ["--resume", title])])


def command_at_work() -> str:
    """Return the command line at work as documents may hold it."""
    return shown(["kernelwright", *sys.argv[1:]])


def shown(words: list[str]) -> str:
    """Return a command line without the password that a store's address may hold."""
    # lazy: SQLAlchemy takes a while to load
    from kernelwright.store.address import shown_command

    return shown_command(words)

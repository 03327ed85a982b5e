"""The words for a fleet: which cluster of Ray judges candidates."""

import re

from kernelwright.core.errors import UserError

HERE = "ray"
"""A cluster of this command's own, on this machine."""
_THERE = re.compile(r"ray://[^\s/:]+:\d{1,5}|ray://\[[0-9A-Fa-f:.]+\]:\d{1,5}")


def parse_workers(text: str) -> str:
    """Return the words as they are; raises UserError where they name no cluster."""
    if text != HERE and not _THERE.fullmatch(text):
        raise UserError(f"--workers {text!r}: use ray, for a cluster on this machine, or ray://HOST:PORT")
    return text

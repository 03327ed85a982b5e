"""What a look at the machine comes to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """The outcome of one look at the machine."""

    name: str
    ok: bool
    value: str
    """What was found, in words."""
    advice: str = ""
    """What to do about it; empty when nothing needs doing."""
    is_required: bool = False
    """Without it the main job cannot be done."""

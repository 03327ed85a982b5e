"""The result of one check of the machine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MachineCheck:
    """The result of one check of the machine."""

    name: str
    ok: bool
    value: str
    """What was found, in words."""
    advice: str = ""
    """What to do about it; empty when nothing needs doing."""
    is_required: bool = False
    """True when Kernelwright cannot work without this."""

"""What a candidate can be compared with."""

from kernelwright.referee.device import parse_device

KNOWN_BASELINES = ("eager", "torch_compile")
"""On every device; a target's device may have more."""


def known_baselines(device: str) -> tuple[str, ...]:
    """Return what there is to compare with on a device; raises UserError where there is no such device.

    The ``copied`` device of the tests has those of a GPU, so that their way can be tested anywhere.
    """
    return (*KNOWN_BASELINES, *parse_device(device).about.baselines)

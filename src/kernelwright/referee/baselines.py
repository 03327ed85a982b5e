"""What a candidate can be compared with."""

from kernelwright.referee.device import parse_device

KNOWN_BASELINES = ("eager", "torch_compile")
DEVICE_BASELINES = (*KNOWN_BASELINES, "eager_tf32", "torch_compile_max_autotune")
"""On a device there are two more: the reference with products in TF32, and torch.compile's longest search."""


def known_baselines(device: str) -> tuple[str, ...]:
    """Return the baselines of a device; raises UserError for an unknown device."""
    return DEVICE_BASELINES if parse_device(device).is_apart else KNOWN_BASELINES

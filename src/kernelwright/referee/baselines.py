"""What a candidate can be compared with."""

from kernelwright.referee.device import parse_device

KNOWN_BASELINES = ("eager", "torch_compile")
DEVICE_BASELINES = (*KNOWN_BASELINES, "eager_tf32", "torch_compile_max_autotune")
"""On a device: the reference with products rounded to TF32 too, and the longest search of torch.compile's."""


def known_baselines(device: str) -> tuple[str, ...]:
    """Return what there is to compare with on a device; raises UserError where there is no such device."""
    return DEVICE_BASELINES if parse_device(device).is_apart else KNOWN_BASELINES

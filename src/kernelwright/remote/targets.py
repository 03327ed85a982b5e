"""What a service judges: candidates for the device that it has."""

from kernelwright.core.errors import UserError
from kernelwright.core.target import TargetName
from kernelwright.targets.registry import find_target


def target_problem(target: TargetName, device: str) -> str | None:
    """Say why candidates for a target are not judged on a kind of device; None: they are.

    Example:
        >>> target_problem(TargetName(device="cpu", language="cpp"), "cuda")
        "target 'cpu/cpp' is for another device; candidates are judged on cuda here, name such a target"
    """
    try:
        # the processor's are found anywhere; another device's only where it is the one that judges
        find_target(str(target), has_device=lambda kind: kind.driver is None or kind.name == device)
    except UserError as error:
        return str(error)
    if target.device != device:
        return (
            f"target {str(target)!r} is for another device; candidates are judged on {device} here, "
            "name such a target"
        )
    return None

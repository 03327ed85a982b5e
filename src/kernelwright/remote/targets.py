"""What a service judges: candidates for the device that it has."""

from kernelwright.core.errors import UserError
from kernelwright.core.target import Target


def target_problem(target: Target, device: str) -> str | None:
    """Say why candidates for a target are not judged on a kind of device; None: they are.

    Example:
        >>> target_problem(Target(device="cpu", language="cpp"), "cuda")
        "target 'cpu/cpp' is for another device; candidates are judged on cuda here, name such a target"
    """
    try:
        Target.parse(str(target), has_device=lambda kind: kind == device)
    except UserError as error:
        return str(error)
    if target.device != device:
        return (
            f"target {str(target)!r} is for another device; candidates are judged on {device} here, "
            "name such a target"
        )
    return None

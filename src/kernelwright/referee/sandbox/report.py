"""The sandbox as ``kernelwright doctor`` shows it."""

from collections.abc import Mapping

from kernelwright.core.errors import MachineError
from kernelwright.machine.doctor import MachineCheck
from kernelwright.referee.device import Device
from kernelwright.referee.sandbox.choose import probe
from kernelwright.referee.sandbox.tiers import ORDER, Sandbox
from kernelwright.targets.registry import device_kinds


def check_sandbox() -> MachineCheck:
    """Try the sandbox of this machine and say what it does not stop. Never raises MachineError.

    Where there is a GPU, tries a sandbox for it too: its driver may not start in the strongest tier.
    """
    try:
        on_gpus = {kind.name: probe(device=kind.name) for kind in device_kinds() if Device(kind.name).nodes()}
        return describe(probe(), on_gpus)
    except MachineError as error:
        return MachineCheck("sandbox", False, "none", str(error), is_required=True)


def describe(sandbox: Sandbox, on_gpus: Mapping[str, Sandbox] | None = None) -> MachineCheck:
    """Return the tier, its layers, and in plain words what it does not stop; also how GPUs differ."""
    value = f"{sandbox.tier} ({', '.join(sandbox.layers)})"
    advice = f"does not stop: {'; '.join(sandbox.not_stopped)}"
    stronger = [f"no {tier}: {why}" for tier, why in sandbox.why_not.items()]
    if stronger:
        advice += f". {'. '.join(stronger)}"
    for kind, other in (on_gpus or {}).items():
        if other.tier is not sandbox.tier:
            reasons = "; ".join(f"no {tier}: {why}" for tier, why in other.why_not.items())
            advice += f". On {kind} {other.tier} only ({reasons})"
    return MachineCheck("sandbox", sandbox.tier is not ORDER[-1], value, advice)

"""The sandbox as ``kernelwright doctor`` shows it."""

from kernelwright.core.errors import MachineError
from kernelwright.devices.doctor import Check
from kernelwright.referee.sandbox.choose import probe
from kernelwright.referee.sandbox.tiers import ORDER, Sandbox


def check_sandbox() -> Check:
    """Try what confines candidates here and say what it does not stop. Never raises."""
    try:
        return describe(probe())
    except MachineError as error:
        return Check("sandbox", False, "none", str(error), is_required=True)


def describe(sandbox: Sandbox) -> Check:
    """Return the tier, what it is made of, and in plain words what it does not stop."""
    value = f"{sandbox.tier} ({', '.join(sandbox.layers)})"
    advice = f"does not stop: {'; '.join(sandbox.not_stopped)}"
    stronger = [f"no {tier}: {why}" for tier, why in sandbox.why_not.items()]
    if stronger:
        advice += f". {'. '.join(stronger)}"
    return Check("sandbox", sandbox.tier is not ORDER[-1], value, advice)

"""Which devices judged the runs of an experiment: what is known of all alike, and in what they differ."""

from collections.abc import Mapping

from kernelwright.core.evidence import FactValue
from kernelwright.core.run import RunSpec
from kernelwright.report.measures import fact
from kernelwright.report.story import Story
from kernelwright.report.table import Table

DeviceFacts = Mapping[str, Mapping[str, FactValue]]
"""Device, or model of the machine where no fleet judged -> what figures from it hold for."""


def judged_on(spec: RunSpec, story: Story) -> str:
    """Return the devices of a fleet that judged a run; without one its processor or GPU, empty if unknown."""
    machine = spec.machine
    model = machine.processor if machine.accelerator is None else machine.accelerator.name
    return ", ".join(story.devices) or model or ""


def shared_facts(devices: DeviceFacts) -> dict[str, FactValue]:
    """Return what is known of all of them alike."""
    first, *others = devices.values() or [{}]
    return {name: value for name, value in first.items() if all(o.get(name) == value for o in others)}


def differences(devices: DeviceFacts) -> Table | None:
    """Return a line for each device with the facts that others have otherwise; None for a single one."""
    if len(devices) < 2:
        return None
    shared = shared_facts(devices)
    names = [n for n in dict.fromkeys(n for facts in devices.values() for n in facts) if n not in shared]
    rows = [
        (device, *("" if facts.get(n) is None else fact(facts[n]) for n in names))
        for device, facts in devices.items()
    ]
    return Table(("device", *names), rows, is_text=True)

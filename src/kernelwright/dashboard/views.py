"""What the pages say, read from a store."""

from collections.abc import Iterator, Sequence

from kernelwright.core.frozen import Frozen
from kernelwright.core.machine import Machine
from kernelwright.core.model_call import ModelCall
from kernelwright.core.visible import visible_lines
from kernelwright.report.prompt_sections import message_texts
from kernelwright.store.base import MachineUse, Store

UNKNOWN = "not recorded"


class CallLine(Frozen):
    """One request to a model."""

    number: int
    call: ModelCall
    messages: tuple[tuple[str, str], ...]
    """Who speaks, and what, in order."""


class MachineLine(Frozen):
    """One machine that runs were judged on."""

    name: str
    cores: str
    compiler: str
    versions: str
    runs: int = 0
    at_work: int = 0
    """Runs in progress."""
    devices: tuple[str, ...] = ()
    """Of a fleet, that judge for these."""


def calls(store: Store, run_id: str) -> list[CallLine]:
    """Return the run's requests to models in order, with what was said."""
    return [
        CallLine(number=number, call=call, messages=tuple(_messages(call)))
        for number, call in enumerate(store.iter_model_calls(run_id), 1)
    ]


def _messages(call: ModelCall) -> Iterator[tuple[str, str]]:
    for who, text in (("request", call.request), ("answer", call.response)):
        if text is not None:
            yield from ((speaker, visible_lines(words)) for speaker, words in message_texts(text, who))


def machines(store: Store) -> list[MachineLine]:
    """Return the machines of all runs, those with most runs first."""
    lines: dict[MachineLine, list[MachineUse]] = {}
    for use in store.machines():
        lines.setdefault(_machine_line(use.machine), []).append(use)
    found = [
        line.model_copy(
            update={
                "runs": sum(use.runs for use in uses),
                "at_work": sum(use.at_work for use in uses),
                "devices": tuple(sorted({device for use in uses for device in use.devices})),
            }
        )
        for line, uses in lines.items()
    ]
    return sorted(found, key=lambda line: -line.runs)


def _machine_line(machine: Machine) -> MachineLine:
    where = machine.accelerator.name if machine.accelerator else machine.processor
    return MachineLine(
        name=where or UNKNOWN,
        cores=UNKNOWN if machine.cores is None else str(machine.cores),
        compiler=machine.compiler or UNKNOWN,
        versions=", ".join(_versions(machine)) or UNKNOWN,
    )


def _versions(machine: Machine) -> Sequence[str]:
    named = {"torch": machine.torch, "Python": machine.python, "Kernelwright": machine.kernelwright}
    return [f"{name} {version}" for name, version in named.items() if version]

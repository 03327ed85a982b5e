"""What the pages say, read from a store."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kernelwright.core.frozen import Frozen
from kernelwright.core.machine import Machine
from kernelwright.core.model_call import ModelCall
from kernelwright.core.visible import visible_lines
from kernelwright.store.base import Store

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


def calls(store: Store, run_id: str) -> list[CallLine]:
    """Return the run's requests to models in order, with what was said."""
    return [
        CallLine(number=number, call=call, messages=tuple(_messages(call)))
        for number, call in enumerate(store.iter_model_calls(run_id), 1)
    ]


def _messages(call: ModelCall) -> Iterator[tuple[str, str]]:
    for where, text in (("request", call.request), ("answer", call.response)):
        if text is None:
            continue
        try:
            said = list(_texts(json.loads(text), where))
        except ValueError:
            said = [(where, text)]
        yield from ((who, visible_lines(words)) for who, words in said)


def _texts(value: Any, who: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of a recorded message with the part that each is, whatever the protocol's nesting."""
    if isinstance(value, str):
        yield who, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, who)
    elif isinstance(value, dict):
        who = str(value.get("role") or value.get("part_kind") or who)
        for key in ("instructions", "parts", "messages", "content", "args", "text"):
            yield from _texts(value.get(key), who)


def machines(store: Store) -> list[MachineLine]:
    """Return the machines of all runs, those with most runs first."""
    lines: dict[MachineLine, Counter[str]] = {}
    for use in store.machines():
        line = _machine_line(use.machine)
        lines.setdefault(line, Counter()).update(runs=use.runs, at_work=use.at_work)
    found = [line.model_copy(update=dict(counts)) for line, counts in lines.items()]
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

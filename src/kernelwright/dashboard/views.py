"""What the pages say, read from a store."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kernelwright.core.frozen import Frozen
from kernelwright.core.machine import Machine
from kernelwright.core.model_call import ModelCall
from kernelwright.core.visible import visible_lines
from kernelwright.report.runlist import standing
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
    runs: int
    at_work: int
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
    n_runs: Counter[str] = Counter()
    at_work: Counter[str] = Counter()
    known: dict[str, Machine] = {}
    for record in store.iter_runs():
        machine = record.spec.machine
        key = machine.model_dump_json(
            include={"processor", "cores", "compiler", "system", "torch", "accelerator"}
        )
        known[key] = machine
        n_runs[key] += 1
        at_work[key] += standing(store, record) == "running"
    return [_machine_line(known[key], runs, at_work[key]) for key, runs in n_runs.most_common()]


def _machine_line(machine: Machine, runs: int, at_work: int) -> MachineLine:
    where = machine.accelerator.name if machine.accelerator else machine.processor
    return MachineLine(
        name=where or UNKNOWN,
        cores=UNKNOWN if machine.cores is None else str(machine.cores),
        compiler=machine.compiler or UNKNOWN,
        versions=", ".join(_versions(machine)) or UNKNOWN,
        runs=runs,
        at_work=at_work,
    )


def _versions(machine: Machine) -> Sequence[str]:
    named = {"torch": machine.torch, "Python": machine.python, "Kernelwright": machine.kernelwright}
    return [f"{name} {version}" for name, version in named.items() if version]

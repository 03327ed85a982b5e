"""The text form of a predicate, and its meaning over evidence. Data in, a bool out; nothing is executed."""

import math
import re

import yaml

from kernelwright.core.evidence import Evidence, FactValue
from kernelwright.core.skill import Operator, Predicate
from kernelwright.skills.yaml_text import read_yaml

_TEXT = re.compile(r"(?P<metric>[\w.]+)\s+(?P<op>==|!=|<=|>=|<|>|in\b|known\b)\s*(?P<value>.*)")
_OPERATORS: dict[str, Operator] = {
    "==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "in": "in", "known": "known",
}  # fmt: skip


def parse_predicate(text: str) -> Predicate:
    """Parse ``metric op value``, e.g. ``graph.structure in [scan, mixed]`` or ``counters.ipc known``.

    Raises:
        ValueError: the text has another form; the message says what was expected.
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not 'metric op value' with op one of {' '.join(_OPERATORS)}")
    op, value = _OPERATORS[match["op"]], match["value"].strip()
    if (op == "known") == bool(value):
        raise ValueError(f"{text!r}: 'known' takes no value, every other operator takes one")
    return Predicate(metric=match["metric"], op=op, value=_parse_value(text, value))


def _parse_value(text: str, value: str) -> FactValue | tuple[FactValue, ...]:
    try:
        parsed = read_yaml(value) if value else None
    except yaml.YAMLError as error:
        raise ValueError(f"{text!r}: {value!r} is not a value") from error
    if isinstance(parsed, list):
        return tuple(parsed)
    if parsed is None or isinstance(parsed, bool | int | float | str):
        return parsed
    raise ValueError(f"{text!r}: {value!r} is neither a scalar nor a list")


def show_predicate(predicate: Predicate) -> str:
    """Return the text form, as it stands in a skill file."""
    if predicate.op == "known":
        return f"{predicate.metric} known"
    if isinstance(predicate.value, tuple):
        return f"{predicate.metric} {predicate.op} [{', '.join(map(_show_value, predicate.value))}]"
    return f"{predicate.metric} {predicate.op} {_show_value(predicate.value)}"


def _show_value(value: FactValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def number(evidence: Evidence, metric: str) -> float | None:
    """Return a finite numeric fact; None when it is unknown, not a number, or a bool."""
    value = evidence.get(metric)
    if value is None or isinstance(value, bool | str) or not math.isfinite(value):
        return None
    return float(value)


def holds(predicate: Predicate, evidence: Evidence) -> bool:
    """Evaluate the predicate. An unknown metric or a value of another kind makes it False, never an error."""
    fact = evidence.get(predicate.metric)
    if predicate.op == "known":
        return fact is not None
    return fact is not None and value_matches(predicate, fact)


def value_matches(predicate: Predicate, fact: FactValue) -> bool:
    """Tell whether a known fact satisfies the predicate."""
    wanted = predicate.value
    match predicate.op:
        case "known":
            return True
        case "in":
            return isinstance(wanted, tuple) and any(_same(fact, item) for item in wanted)
        case "==":
            return _same(fact, wanted)
        case "!=":
            return _kind(fact) == _kind(wanted) and not _same(fact, wanted)
        case _:
            return _compare(predicate.op, fact, wanted)


def _kind(value: FactValue | tuple[FactValue, ...]) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _same(fact: FactValue, wanted: FactValue | tuple[FactValue, ...]) -> bool:
    """Equality that keeps True and 1 apart."""
    return _kind(fact) == _kind(wanted) and fact == wanted


def _compare(op: Operator, fact: FactValue, wanted: FactValue | tuple[FactValue, ...]) -> bool:
    if not isinstance(fact, int | float) or not isinstance(wanted, int | float):
        return False
    if isinstance(fact, bool) or isinstance(wanted, bool):
        return False
    match op:
        case "<":
            return fact < wanted
        case "<=":
            return fact <= wanted
        case ">":
            return fact > wanted
        case _:
            return fact >= wanted

"""Which kernels host code launches, and with how large blocks where that is written in numbers."""

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

_LAUNCH = re.compile(
    r"\b(?P<kernel>[A-Za-z_][\w:]{0,200})\s{0,9}(?:<(?P<types>(?!<<)[^;{}]{0,200}?)>)?\s{0,9}"
    r"<<<(?P<sizes>.{0,800}?)>>>",
    re.DOTALL,
)
_NUMBER = re.compile(
    r"(?:#\s*define\s+(?P<macro>\w+)[ \t]+|\b(?:int|unsigned|size_t|auto|int64_t|long|uint32_t)\s+"
    r"(?P<name>\w+)\s*=\s*)(?P<value>[\w\s()*+/-]+?)\s*(?:;|$)",
    re.MULTILINE,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_DIM3 = re.compile(r"\bdim3\s+(?P<name>\w+)\s*(?:=\s*dim3\s*)?[({](?P<sizes>[^;]*)[)}]\s*;")
_SIZES = {"float": 4, "int": 4, "double": 8, "half": 2, "__half": 2, "char": 1, "scalar_t": 4, "unsigned": 4}
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


@dataclass(frozen=True)
class HostLaunch:
    """One launch as host code writes it; None where it is computed at run time."""

    kernel: str
    """As written, with its namespace."""
    types: str | None
    """Template arguments, as written."""
    block_threads: int | None
    shared_bytes: int | None


def host_launches(host: str, device: str) -> tuple[HostLaunch, ...]:
    """Return the launches in the host code, each kind once; numbers may be defined in either part."""
    numbers = known_numbers(f"{device}\n{host}")
    shapes = {m["name"]: m["sizes"] for m in _DIM3.finditer(host)}
    found = []
    for match in _LAUNCH.finditer(host):
        sizes = split_arguments(match["sizes"])
        block = _threads(sizes[1], shapes, numbers) if len(sizes) > 1 else None
        shared = number_of(sizes[2], numbers) if len(sizes) > 2 else 0
        types = match["types"].strip() if match["types"] else None
        found.append(HostLaunch(match["kernel"], types, block, shared))
    return tuple(dict.fromkeys(found))


def known_numbers(text: str) -> dict[str, int]:
    """Return the names that are given one whole number; a name that is given two is left out."""
    values: dict[str, set[int | None]] = {}
    known: dict[str, int] = {}
    for match in _NUMBER.finditer(_COMMENT.sub(" ", text)):
        name = match["macro"] or match["name"]
        value = number_of(match["value"], known)
        values.setdefault(name, set()).add(value)
        if value is not None:
            known[name] = value
    return {name: known[name] for name, given in values.items() if len(given) == 1 and None not in given}


def number_of(text: str, known: dict[str, int]) -> int | None:
    """Return what an expression of whole numbers, known names and ``sizeof`` comes to, None otherwise."""
    plain = re.sub(r"\bsizeof\s*\(\s*(\w+)\s*\)", lambda m: str(_SIZES.get(m[1], "unknown")), text)
    plain = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", plain)
    try:
        return _value(ast.parse(plain.strip(), mode="eval").body, known)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _value(node: ast.expr, known: dict[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, known), _value(node.right, known))
    raise ValueError("no whole number")


def _threads(text: str, shapes: dict[str, str], known: dict[str, int]) -> int | None:
    text = shapes.get(text.strip(), text).strip()
    inner = re.fullmatch(r"dim3\s*[({](.*)[)}]", text, re.DOTALL)
    threads = 1
    for part in split_arguments(inner[1] if inner else text):
        size = number_of(part, known)
        if size is None or size < 1:
            return None
        threads *= size
    return threads


def split_arguments(text: str) -> list[str]:
    """Split at the commas that stand in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]

"""What converters take and give: texts by file name, never files."""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.task import Literal_, Task, Workload
from kernelwright.formats.seen import SeenCall

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True)
class Converted:
    """What a converter made."""

    files: dict[str, str]
    """Text by path, relative to the folder that it belongs in."""
    notes: tuple[str, ...] = ()
    """What could not be carried over, a line each."""
    tasks: tuple[str, ...] = ()
    """Which of the files are tasks; kernels may define ``Model`` too."""


@dataclass(frozen=True)
class Package:
    """A task with its kernels and what the referee said of them, to be written in another format."""

    task: Task
    kernels: Mapping[str, str] = field(default_factory=dict)
    """Source by name."""
    evaluations: Mapping[str, Evaluation] = field(default_factory=dict)
    """By the kernel's name."""
    author: str = "kernelwright"
    device: str = "cpu"
    """Kind of device that the kernels are for, as Hugging Face's kernels call it."""
    look: Callable[[Task, Workload], SeenCall] | None = None
    """Calls the task once; None: in this process, as it is the user's own."""

    def __post_init__(self) -> None:
        if unknown := self.evaluations.keys() - self.kernels.keys():
            raise ValueError(f"a verdict on {min(unknown)}, which is none of the kernels")


def read_json(path: Path) -> Any:
    """Return a JSON file's document; raises UserError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    return parse_json(text, path)


def parse_json(text: str, where: Path) -> Any:
    """Return a text's document; raises UserError, which begins with where it stands."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: no JSON ({error})") from error


def read_record(kind: type[R], document: Any, path: Path) -> R:
    """Return a document as a record; raises UserError, in one line, for one that is none."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path}: {where or 'document'}: {first['msg']}") from error


def read_text(path: Path) -> str:
    """Return a text file; raises UserError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error


def counted(problems: Sequence[str], what: str) -> list[str]:
    """Return one note on problems of one kind: the first, and how many more there are."""
    more = f"; {len(problems) - 1} more {what} are left out too" if len(problems) > 1 else ""
    return [f"{problems[0]}{more}"] if problems else []


def identifier(name: str) -> str:
    """Return a name that Python and file systems take."""
    text = re.sub(r"\W+", "_", name).strip("_") or "task"
    return f"t_{text}" if text[0].isdigit() else text


def workloads_line(workloads: Mapping[str, Mapping[str, Literal_]]) -> str:
    """Return the assignment of WORKLOADS in a task file; empty for fewer than two."""
    if len(workloads) < 2:
        return ""
    rows = "".join(f"    {name!r}: {dict(overrides)!r},\n" for name, overrides in workloads.items())
    return f"WORKLOADS = {{\n{rows}}}\n"


def named_apart(folders: Sequence[Path]) -> dict[str, Path]:
    """Return folders by a name for files, with their parent's name where two are called alike."""
    names = [identifier(folder.name) for folder in folders]
    return {
        name if names.count(name) == 1 else identifier(f"{folder.parent.name}_{name}"): folder
        for name, folder in zip(names, folders, strict=True)
    }


def literal_defaults(found: ast.arguments) -> dict[str, Any]:
    """Return what a function takes: name -> default, None where there is none or it is no literal."""
    positional = [*found.posonlyargs, *found.args]
    gaps: list[ast.expr | None] = [None] * (len(positional) - len(found.defaults))
    pairs = [*zip(positional, [*gaps, *found.defaults], strict=True)]
    pairs += zip(found.kwonlyargs, found.kw_defaults, strict=True)
    return {one.arg: _literal(default) for one, default in pairs}


def _literal(node: ast.expr | None) -> Any:
    try:
        return None if node is None else ast.literal_eval(node)
    except (ValueError, TypeError):
        return None

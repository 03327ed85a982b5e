"""Read KernelBench-format files: ``Model``, ``get_inputs``, ``get_init_inputs`` and size globals.

A file may also say, as module-level literals, ``WORKLOADS = {"small": {"batch_size": 8}}``,
``MODE = "eval"``, ``TOLERANCE = "tf32"`` and ``CATEGORY = "pointwise"``. Loading executes nothing.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from kernelwright.core.errors import TaskError
from kernelwright.core.task import Mode, Task, TolerancePolicy, Workload
from kernelwright.tasks.globals import assigned_literals, bound_names

REQUIRED = ("Model", "get_inputs", "get_init_inputs")
_Choice = TypeVar("_Choice", bound=StrEnum)


def load_task(
    path: Path,
    *,
    workloads: Sequence[Workload] = (),
    mode: Mode | None = None,
    tolerance: TolerancePolicy | None = None,
) -> Task:
    """Read one task file; arguments given here win over what the file says.

    Raises:
        TaskError: the file cannot be read or parsed, misses a required name, or one of its
            settings is not what it must be. The message is one line.
    """
    task = parse_task(_read_source(path), path, workloads=workloads, mode=mode, tolerance=tolerance)
    return task.model_copy(update={"path": str(path)})


def parse_task(
    source: str,
    path: Path,
    *,
    workloads: Sequence[Workload] = (),
    mode: Mode | None = None,
    tolerance: TolerancePolicy | None = None,
) -> Task:
    """Read a task from source text; ``path`` names it, in messages too, and need not be there.

    Raises:
        TaskError: as ``load_task``.
    """
    tree = _parse(path, source)
    _require_names(path, tree)
    settings = assigned_literals(tree)
    chosen = tuple(workloads) or _workloads(path, settings.get("WORKLOADS"))
    _require_globals(path, tree, chosen)
    return Task(
        name=path.stem,
        source=source,
        workloads=chosen or (Workload(),),
        mode=mode or _choice(path, settings, "MODE", Mode, Mode.TRAIN),
        tolerance=tolerance or _choice(path, settings, "TOLERANCE", TolerancePolicy, TolerancePolicy.STRICT),
    )


def load_folder(folder: Path) -> tuple[Task, ...]:
    """Read every ``*.py`` of a folder, sorted by number, then name.

    A folder without task files of its own is read through its sub-folders (``level1``, ``level2`` ...).
    """
    if not folder.is_dir():
        raise TaskError(f"{folder}: no such folder; name a folder of KernelBench-format files")
    files = [path for path in folder.glob("*.py") if not path.name.startswith("_")]
    files = files or [path for path in folder.glob("*/*.py") if not path.name.startswith("_")]
    if not files:
        raise TaskError(f"{folder}: holds no .py files; name a folder of KernelBench-format files")
    return tuple(load_task(path) for path in sorted(files, key=_order))


def task_category(task: Task) -> str | None:
    """Return the file's ``CATEGORY``, None when it has none."""
    category = assigned_literals(ast.parse(task.source)).get("CATEGORY")
    return category if isinstance(category, str) else None


def task_number(task: Task) -> int | None:
    """Return the number before the first underscore of the name, as KernelBench counts."""
    match = re.match(r"(\d+)_", task.name)
    return int(match[1]) if match else None


def _order(path: Path) -> tuple[str, int, str]:
    match = re.match(r"(\d+)_", path.name)
    return str(path.parent), int(match[1]) if match else 10**9, path.name


def _read_source(path: Path) -> str:
    if not path.exists():
        raise TaskError(f"{path}: no such file")
    if path.is_dir():
        raise TaskError(f"{path}: is a folder; name a .py file")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise TaskError(f"{path}: cannot be read ({error.strerror})") from error


def _parse(path: Path, source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise TaskError(f"{path}:{error.lineno}: syntax error: {error.msg}") from error
    except ValueError as error:  # null bytes
        raise TaskError(f"{path}: not Python source ({error})") from error
    except (RecursionError, MemoryError) as error:
        raise TaskError(f"{path}: not Python source: nested too deeply to parse") from error


def _require_names(path: Path, tree: ast.Module) -> None:
    names = bound_names(tree)
    missing = [name for name in REQUIRED if name not in names]
    if missing and "*" not in names:
        raise TaskError(
            f"{path}: defines no `{'`, no `'.join(missing)}`; a task is a KernelBench-format file with "
            "`class Model(nn.Module)`, `get_inputs()` and `get_init_inputs()`"
        )


def _require_globals(path: Path, tree: ast.Module, workloads: Sequence[Workload]) -> None:
    known = bound_names(tree)
    for workload in workloads:
        unknown = sorted(set(workload.overrides) - known)
        if unknown and "*" not in known:
            raise TaskError(
                f"{path}: workload {workload.name!r} rebinds {', '.join(unknown)}, which the file does not "
                "assign at top level"
            )


def _workloads(path: Path, listed: Any) -> tuple[Workload, ...]:
    if listed is None:
        return ()
    shape = 'a literal like {"small": {"batch_size": 8}}'
    if not isinstance(listed, dict) or not listed:
        raise TaskError(f"{path}: WORKLOADS must be {shape}")
    return tuple(_workload(path, name, overrides, shape) for name, overrides in listed.items())


def _workload(path: Path, name: Any, overrides: Any, shape: str) -> Workload:
    if not isinstance(overrides, dict):
        raise TaskError(f"{path}: WORKLOADS[{name!r}] must be a dict, as in {shape}")
    frozen = {key: tuple(v) if isinstance(v, list) else v for key, v in overrides.items()}
    try:
        return Workload(name=name, overrides=frozen)
    except ValidationError as error:
        raise TaskError(f"{path}: WORKLOADS[{name!r}] is not {shape} ({one_line(error)})") from error


def _choice(
    path: Path, settings: dict[str, Any], name: str, kind: type[_Choice], default: _Choice
) -> _Choice:
    value = settings.get(name, default)
    if value not in list(kind):
        raise TaskError(f"{path}: {name} = {value!r} is not one of {', '.join(kind)}")
    return kind(value)


def one_line(error: Exception) -> str:
    """Return an error's text on one line, cut to what a person reads."""
    return " ".join(str(error).split())[:200]


def iter_paths(folder: Path, level: int) -> Iterator[Path]:
    """Yield the problem files of one level of a KernelBench folder in the order of their numbers."""
    yield from sorted((folder / f"level{level}").glob("*.py"), key=_order)

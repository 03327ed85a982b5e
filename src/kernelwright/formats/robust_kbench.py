"""robust-kbench in: a folder with ``func_forward.py`` and ``config_forward.json`` becomes a task file.

Its ``Model`` and ``get_inputs`` take keyword arguments from the configuration. They become globals of the
task file, so that every configuration is a workload.
"""

import ast
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from kernelwright.core.errors import UserError
from kernelwright.core.task import Literal_
from kernelwright.formats.package import (
    Converted,
    literal_defaults,
    named_apart,
    read_json,
    read_text,
    workloads_line,
)
from kernelwright.formats.sources import moved, parsed, require_python
from kernelwright.tasks.kernelbench import parse_task

SOURCE, CONFIGURATION = "func_forward.py", "config_forward.json"


def read_robust_kbench(path: Path) -> Converted:
    """Read a task's folder, or a folder of such folders.

    Raises:
        UserError: nothing is there, or a file has another form.
    """
    folders = sorted(file.parent for file in path.rglob(SOURCE)) if path.is_dir() else []
    if not folders:
        raise UserError(f"{path}: no {SOURCE} there; name a task's folder of robust-kbench")
    files: dict[str, str] = {}
    tasks: list[str] = []
    notes: list[str] = []
    for name, folder in named_apart(folders).items():
        try:
            text = require_python(_task_text(folder), folder)
            parse_task(text, folder)
        except UserError as error:
            notes.append(str(error))
            continue
        files[f"{name}.py"] = text
        tasks.append(f"{name}.py")
        if (folder / "func_backward.py").exists():
            notes.append(f"{folder.name}: the backward task is left out; only forward passes convert")
    if not files:
        raise UserError("; ".join(notes))
    return Converted(files, tuple(notes), tuple(tasks))


def _task_text(folder: Path) -> str:
    source = read_text(folder / SOURCE)
    tree = parsed(source, folder / SOURCE)
    init, drawn = _parameters(folder / SOURCE, tree)
    found = _configurations(folder / CONFIGURATION)
    first = next(iter(found.values()))
    input_names = [name for name in drawn if name in first]
    gaps = [name for name, default in init.items() if name not in first and default is None]
    if gaps:
        raise UserError(f"{folder}: the configuration gives no value for {', '.join(gaps)} of Model")
    sizes = "".join(f"{name} = {value!r}\n" for name, value in {**init, **first}.items())
    arguments = ", ".join(f"{name}={name}" for name in input_names)
    own = moved(source, tree)
    return f'''"""{folder.name}, a forward task of robust-kbench."""

{own.top}{sizes}
{workloads_line(found)}
{own.rest}


_draw = get_inputs


def get_inputs():
    return _draw({arguments})


def get_init_inputs():
    return [{", ".join(init)}]
'''


def _parameters(path: Path, tree: ast.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what ``Model`` and ``get_inputs`` take, with their defaults."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"]
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "get_inputs"]
    if not classes or not functions:
        raise UserError(f"{path}: defines no Model or no get_inputs")
    made = [n for n in classes[0].body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    init = literal_defaults(made[0].args) if made else {}
    return dict([*init.items()][1:]), literal_defaults(functions[0].args)


def _configurations(path: Path) -> dict[str, Mapping[str, Literal_]]:
    """Return the values of each configuration by a name: the single one first, then the several.

    What is shared wins over the others, as in their harness.
    """
    document = read_json(path)
    if not isinstance(document, dict):
        raise UserError(f"{path}: no mapping at top level")
    found: dict[str, Mapping[str, Literal_]] = {}
    for kind in ("single", "multi"):
        parts = [document.get(f"{kind}_{part}_configs", ()) for part in ("init", "input", "shared")]
        if not all(isinstance(part, list) for part in parts):
            raise UserError(
                f"{path}: no list {kind}_init_configs, {kind}_input_configs or {kind}_shared_configs"
            )
        if not all(isinstance(one, dict) for part in parts for one in part):
            raise UserError(f"{path}: a configuration of {kind} is no mapping of names to values")
        for init, drawn, shared in product(*parts):
            values: dict[str, Any] = {**init, **drawn, **shared}
            if values not in found.values():
                found[f"{kind}{len(found)}"] = values
    if not found:
        raise UserError(f"{path}: holds no configuration")
    return found

"""GPU MODE's popcorn in: a problem folder (``task.yml``, ``reference.py``) becomes a task file.

The reference's ``ref_kernel(data)`` becomes ``Model``, ``generate_input(..., seed)`` the inputs, the
benchmarks workloads. Submissions (``custom_kernel(data)``) become kernels.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kernelwright.core.errors import UserError
from kernelwright.core.printing import unparse
from kernelwright.formats.package import (
    Converted,
    identifier,
    literal_defaults,
    named_apart,
    read_text,
    workloads_line,
)
from kernelwright.formats.sources import parsed, require_python, to_the_top
from kernelwright.tasks.kernelbench import parse_task

SPEC, REFERENCE = ("task.yml", "task.yaml"), "reference.py"
SEED = "seed"
THEIRS = ("task", "utils", "eval")
"""Modules of their harness, which a task file has no use for."""
CHECK = "check_implementation"
STAND_INS = {
    "input_t": "input_t = object",
    "output_t": "output_t = object",
    "DeterministicContext": "from contextlib import nullcontext as DeterministicContext",
}
"""Names of their harness that references may use -> what stands for them."""
DEVICE_LITERALS = ("cuda", "cuda:0")


def read_popcorn(path: Path) -> Converted:
    """Read a problem's folder, or a folder of such folders.

    Raises:
        UserError: nothing is there, or no problem can be a task; of several, the others are converted.
    """
    folders = sorted({file.parent for name in SPEC for file in path.rglob(name)}) if path.is_dir() else []
    if not folders:
        raise UserError(f"{path}: no task.yml there; name a problem's folder of GPU MODE")
    files: dict[str, str] = {}
    tasks: list[str] = []
    notes: list[str] = []
    for name, folder in named_apart(folders).items():
        try:
            text = require_python(_task_text(folder, notes), folder)
            parse_task(text, folder)
        except UserError as error:
            notes.append(str(error))
            continue
        files[f"{name}.py"] = text
        tasks.append(f"{name}.py")
        files |= _submissions(name, folder, notes)
    if not files:
        raise UserError("; ".join(notes))
    return Converted(files, tuple(notes), tuple(tasks))


def _task_text(folder: Path, notes: list[str]) -> str:
    spec = _spec(folder)
    cases = spec.get("benchmarks") or spec.get("tests") or []
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases) or not cases:
        raise UserError(f"{folder}: its task.yml lists no benchmarks and no tests")
    top, source, arguments = _cleaned(folder / REFERENCE, notes)
    sizes = [{key: value for key, value in case.items() if key != SEED} for case in cases]
    named = {key: arguments.get(key) for case in sizes for key in case}
    unknown = sorted(map(str, named.keys() - arguments.keys()))
    if unknown:
        raise UserError(f"{folder}: generate_input takes no {', '.join(unknown)}")
    workloads = _named([{**named, **case} for case in sizes])
    notes.append(f"{folder.name}: tolerances of {CHECK} are left out; the task's own hold")
    first = next(iter(workloads.values()))
    lines = "".join(f"{key} = {value!r}\n" for key, value in first.items())
    given = "".join(f"{key}={key}, " for key in first)
    seed = f"{SEED}=int(torch.randint(0, 2**31 - 1, ()))" if SEED in arguments else ""
    return f'''"""{folder.name}, a problem of GPU MODE."""

{top}import torch
from torch import nn

{lines}
{workloads_line(workloads)}
{source}


def _as_tuple(data):
    return tuple(data) if isinstance(data, (tuple, list)) else (data,)


class Model(nn.Module):
    def forward(self, *data):
        own = tuple(one.clone() if isinstance(one, torch.Tensor) else one for one in data)
        return ref_kernel(own if len(own) > 1 else own[0])


def get_inputs():
    return list(_as_tuple(generate_input({given}{seed})))


def get_init_inputs():
    return []
'''


def _spec(folder: Path) -> Mapping[str, Any]:
    path = next(folder / name for name in SPEC if (folder / name).exists())
    try:
        found = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: no YAML ({' '.join(str(error).split())[:200]})") from error
    if not isinstance(found, dict):
        raise UserError(f"{path}: no mapping at top level")
    return found


def _named(sizes: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the cases by a name made of their values; equal ones once."""
    found: dict[str, Mapping[str, Any]] = {}
    for case in sizes:
        found.setdefault("_".join(f"{key}{value}" for key, value in case.items()) or "default", case)
    return found


def _cleaned(path: Path, notes: list[str]) -> tuple[str, str, dict[str, Any]]:
    """Return a reference without its harness, and what ``generate_input`` takes with its defaults.

    What of it must stand at the top of a file comes first.
    """
    kept, imported = _without_theirs(parsed(read_text(path), path))
    kept = [node for node in kept if not _is_check(node)]
    functions = {node.name: node for node in kept if isinstance(node, ast.FunctionDef)}
    for name in ("ref_kernel", "generate_input"):
        if name not in functions:
            raise UserError(f"{path}: defines no function {name}")
    top, kept = to_the_top(kept)
    rest = ast.Module(kept, [])
    needed = imported & {node.id for node in ast.walk(rest) if isinstance(node, ast.Name)}
    unknown = sorted(needed - STAND_INS.keys())
    if unknown:
        raise UserError(f"{path}: uses {', '.join(unknown)} of the harness, for which nothing stands here")
    if _to_cpu(rest):
        notes.append(f"{path.parent.name}: inputs are drawn on the processor; the referee moves them")
    text = f"{_stand_ins(needed)}\n{unparse(rest)}"
    return top, text, literal_defaults(functions["generate_input"].args)


def _without_theirs(tree: ast.Module) -> tuple[list[ast.stmt], set[str]]:
    """Return the statements that import nothing of the harness, and the names that the others import."""
    kept: list[ast.stmt] = []
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module in THEIRS:
            names |= {alias.asname or alias.name for alias in node.names}
        else:
            kept.append(node)
    return kept, names - {"*"} | (STAND_INS.keys() if "*" in names else set())


def _stand_ins(names: Iterable[str]) -> str:
    return "".join(f"{STAND_INS[name]}\n" for name in sorted(names))


def _is_check(node: ast.stmt) -> bool:
    """Tell whether a statement belongs to the comparison of results."""
    if isinstance(node, ast.FunctionDef):
        return node.name == CHECK
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == CHECK for target in targets)


def _to_cpu(tree: ast.AST) -> bool:
    """Replace names of GPUs by the processor's; return whether there were any."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value in DEVICE_LITERALS]
    for node in found:
        node.value = "cpu"
    return bool(found)


def _submissions(task: str, folder: Path, notes: list[str]) -> dict[str, str]:
    """Return the kernels of a problem; a submission that does not convert is a note."""
    found: dict[str, str] = {}
    for path in sorted([folder / "submission.py", *folder.glob("solutions/**/*.py")]):
        file = f"{task}__{identifier(path.relative_to(folder).with_suffix('').as_posix())}.py"
        try:
            source = read_text(path) if path.is_file() else ""
            if "def custom_kernel" not in source:
                continue
            if file in found:
                raise UserError(f"{path} is left out: another submission is already in {file}")
            found[file] = require_python(_kernel_text(path, source), path)
        except UserError as error:
            notes.append(str(error))
    return found


def _kernel_text(path: Path, source: str) -> str:
    kept, names = _without_theirs(parsed(source, path))
    top, kept = to_the_top(kept)
    return f'''"""{path.name}, a submission to GPU MODE."""

{top}import torch
from torch import nn

{_stand_ins(names & STAND_INS.keys())}
{unparse(ast.Module(kept, []))}


class ModelNew(nn.Module):
    def forward(self, *data):
        own = tuple(one.clone() if isinstance(one, torch.Tensor) else one for one in data)
        return custom_kernel(own if len(own) > 1 else own[0])
'''

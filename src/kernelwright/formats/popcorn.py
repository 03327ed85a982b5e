"""GPU MODE's popcorn in: a problem folder (``task.yml``, ``reference.py``) becomes a task file.

The reference's ``ref_kernel(data)`` becomes ``Model``, ``generate_input(..., seed)`` the inputs, the
benchmarks workloads. Submissions (``custom_kernel(data)``) become kernels.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kernelwright.core.errors import UserError
from kernelwright.formats.package import (
    Converted,
    identifier,
    literal_defaults,
    named_apart,
    read_text,
    workloads_line,
)
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
        UserError: nothing is there, or a problem cannot be a task; of several, the others are converted.
    """
    folders = sorted({file.parent for name in SPEC for file in path.rglob(name)}) if path.is_dir() else []
    if not folders:
        raise UserError(f"{path}: no task.yml there; name a problem's folder of GPU MODE")
    files: dict[str, str] = {}
    notes: list[str] = []
    for name, folder in named_apart(folders).items():
        try:
            text = _task_text(folder, notes)
            parse_task(text, folder)
            files[f"{name}.py"] = text
        except UserError as error:
            notes.append(str(error))
            continue
        for submission in _submissions(folder):
            label = identifier(submission.relative_to(folder).with_suffix("").as_posix())
            files[f"{name}__{label}.py"] = _kernel_text(submission)
    if not files:
        raise UserError("; ".join(notes))
    return Converted(files, tuple(notes))


def _task_text(folder: Path, notes: list[str]) -> str:
    spec = _spec(folder)
    cases = spec.get("benchmarks") or spec.get("tests") or []
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases) or not cases:
        raise UserError(f"{folder}: its task.yml lists no benchmarks and no tests")
    source, arguments = _cleaned(folder / REFERENCE, notes)
    sizes = [{key: value for key, value in case.items() if key != SEED} for case in cases]
    named = {key: arguments.get(key) for case in sizes for key in case}
    unknown = sorted(named.keys() - arguments.keys())
    if unknown:
        raise UserError(f"{folder}: generate_input takes no {', '.join(unknown)}")
    workloads = _named([{**named, **case} for case in sizes])
    notes.append(f"{folder.name}: tolerances of {CHECK} are left out; the task's own hold")
    first = next(iter(workloads.values()))
    lines = "".join(f"{key} = {value!r}\n" for key, value in first.items())
    given = "".join(f"{key}={key}, " for key in first)
    seed = f"{SEED}=int(torch.randint(0, 2**31 - 1, ()))" if SEED in arguments else ""
    return f'''"""{folder.name}, a problem of GPU MODE."""

import torch
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
    except yaml.YAMLError as error:
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


def _cleaned(path: Path, notes: list[str]) -> tuple[str, dict[str, Any]]:
    """Return a reference without its harness, and what ``generate_input`` takes with its defaults."""
    try:
        tree = ast.parse(read_text(path))
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{path}: not Python ({error})") from error
    kept, imported = [], set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module in THEIRS:
            imported |= {alias.asname or alias.name for alias in node.names}
        elif not _is_check(node):
            kept.append(node)
    functions = {node.name: node for node in kept if isinstance(node, ast.FunctionDef)}
    for name in ("ref_kernel", "generate_input"):
        if name not in functions:
            raise UserError(f"{path}: defines no function {name}")
    rest = ast.Module(kept, [])
    needed = imported & {node.id for node in ast.walk(rest) if isinstance(node, ast.Name)}
    unknown = sorted(needed - STAND_INS.keys())
    if unknown:
        raise UserError(f"{path}: uses {', '.join(unknown)} of the harness, for which nothing stands here")
    if _to_cpu(rest):
        notes.append(f"{path.parent.name}: inputs are drawn on the processor; the referee moves them")
    stand_ins = "".join(f"{STAND_INS[name]}\n" for name in sorted(needed))
    return f"{stand_ins}\n{ast.unparse(rest)}", literal_defaults(functions["generate_input"].args)


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


def _submissions(folder: Path) -> Iterator[Path]:
    for path in sorted([folder / "submission.py", *folder.glob("solutions/**/*.py")]):
        if path.exists() and "def custom_kernel" in read_text(path):
            yield path


def _kernel_text(path: Path) -> str:
    try:
        tree = ast.parse(read_text(path))
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{path}: not Python ({error})") from error
    kept: list[ast.stmt] = []
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module in THEIRS:
            names |= {alias.asname or alias.name for alias in node.names} & STAND_INS.keys()
        else:
            kept.append(node)
    stand_ins = "".join(f"{STAND_INS[name]}\n" for name in sorted(names))
    return f'''"""{path.name}, a submission to GPU MODE."""

import torch
from torch import nn

{stand_ins}
{ast.unparse(ast.Module(kept, []))}


class ModelNew(nn.Module):
    def forward(self, *data):
        own = tuple(one.clone() if isinstance(one, torch.Tensor) else one for one in data)
        return custom_kernel(own if len(own) > 1 else own[0])
'''

"""Definitions and solutions of FlashInfer-Bench as the text of task and kernel files."""

import ast
import math
from collections.abc import Sequence
from typing import Any

from kernelwright.core.errors import UserError
from kernelwright.core.printing import unparse
from kernelwright.formats.flashinfer_records import (
    DefinitionRecord,
    ScalarInputRecord,
    SolutionRecord,
    StoredInputRecord,
    TensorRecord,
    WorkloadRecord,
)
from kernelwright.formats.package import counted, identifier, workloads_line
from kernelwright.formats.sources import MovedSource, moved, parsed, to_the_top
from kernelwright.tasks.globals import bound_names

RANDOM = {
    **dict.fromkeys(("float32", "float16", "bfloat16"), "torch.randn({shape}).to(torch.{dtype})"),
    **dict.fromkeys(
        ("float8_e4m3fn", "float8_e5m2"), "torch.randn({shape}).clamp(-2.0, 2.0).to(torch.{dtype})"
    ),
    "bool": "torch.randint(0, 2, ({shape},)).to(torch.bool)",
    "int8": "torch.randint(-128, 128, ({shape},), dtype=torch.int8)",
    **dict.fromkeys(
        ("int16", "int32", "int64"), "torch.randint(-1024, 1024, ({shape},), dtype=torch.{dtype})"
    ),
}
"""How an input of each type is drawn, as their harness does."""
PYTHONS = ("python", "triton")
OWN = frozenset(
    {"Model", "ModelNew", "get_inputs", "get_init_inputs", "run", "torch", "nn"}
    | {"WORKLOADS", "MODE", "TOLERANCE", "CATEGORY"}
)
"""Names that mean something in our files."""
IMPORTED = frozenset({"torch", "nn"})
"""Of these, what a source may bind as well: it imports the same."""


def task_text(definition: DefinitionRecord, workloads: Sequence[WorkloadRecord], notes: list[str]) -> str:
    """Return a task file; adds to notes what it cannot say. Raises UserError where there can be no task."""
    name = definition.name
    usable = _usable(definition, workloads, notes)
    names = [*definition.axes, *definition.inputs]
    bad = [one for one in names if not one.isidentifier() or one in OWN]
    if bad:
        raise UserError(f"{name}: {', '.join(bad)} cannot be names of a task file's globals")
    reference = _kept_apart(definition.reference, "run", {*OWN, *names} - {"run"}, f"{name}: its reference")
    if definition.constraints:
        notes.append(f"{name}: constraints between axes are kept as a comment only")
    constants = {axis: record.value for axis, record in definition.axes.items() if record.type == "const"}
    first = {**constants, **next(iter(usable.values()), {})}
    drawn = ",\n        ".join(_draw(key, spec, definition) for key, spec in definition.inputs.items())
    given = ", ".join(definition.inputs)
    sizes = "".join(f"{key} = {value!r}\n" for key, value in first.items())
    rules = "".join(f"# {' '.join(rule.split())}\n" for rule in definition.constraints)
    return f"""{_title(definition)}
{reference.top}import torch
from torch import nn

{sizes}{rules}{workloads_line(usable)}
CATEGORY = {definition.op_type!r}

{reference.rest}


class Model(nn.Module):
    def forward(self, {given}):
        return run({given})


def get_inputs():
    return [
        {drawn},
    ]


def get_init_inputs():
    return []
"""


def _usable(
    definition: DefinitionRecord, workloads: Sequence[WorkloadRecord], notes: list[str]
) -> dict[str, dict[str, Any]]:
    """Return the globals that each usable workload gives the task; raises UserError where none is usable."""
    name = definition.name
    drawn = [one for one in workloads if not is_stored(one)]
    if len(drawn) < len(workloads):
        notes.append(f"{name}: {len(workloads) - len(drawn)} workloads with stored tensors are left out")
    if workloads and not drawn:
        raise UserError(
            f"{name}: every workload reads tensors from files; only random and scalar inputs convert"
        )
    found: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for one in drawn:
        try:
            found[one.uuid] = bound(one, definition)
        except UserError as error:
            problems.append(str(error))
    if problems and not found:
        raise UserError(problems[0])
    notes += counted(problems, "workloads")
    variable = _variable(definition)
    if variable and not found:
        raise UserError(f"{name}: no workload says how large {', '.join(variable)} are")
    return found


def kernel_text(definition: DefinitionRecord, solution: SolutionRecord) -> str:
    """Return a file that defines ModelNew; raises UserError for a solution that is not one Python file."""
    label = f"{solution.definition}: solution {solution.name}"
    if solution.spec.language not in PYTHONS:
        raise UserError(f"{label} is in {solution.spec.language}; only Python and Triton convert")
    if len(solution.sources) != 1:
        raise UserError(f"{label} has {len(solution.sources)} files; only one converts")
    entry = solution.spec.entry_point.partition("::")[2]
    if not entry.isidentifier():
        raise UserError(f"{label}: its entry point {solution.spec.entry_point!r} names no function")
    source = _kept_apart(solution.sources[0].content, entry, {*OWN, *definition.inputs} - {entry}, label)
    given = ", ".join(definition.inputs)
    call = f"        return {entry}({given})\n"
    if solution.spec.destination_passing_style:
        call = _call_with_outputs(definition, entry, given)
    by = identifier(solution.author)
    return f'''"""Solution {identifier(solution.name)} by {by}, from FlashInfer-Bench."""

{source.top}import torch
from torch import nn

{source.rest}


class ModelNew(nn.Module):
    def forward(self, {given}):
{call}'''


def _call_with_outputs(definition: DefinitionRecord, entry: str, given: str) -> str:
    """Return the lines that make the outputs, have them written and return them."""
    outputs = [
        f"{key} = torch.empty({_shape(key, spec, definition)}, dtype=torch.{_dtype(spec)}, device=_device)"
        for key, spec in definition.outputs.items()
    ]
    names = ", ".join(definition.outputs)
    tensor = next((key for key, spec in definition.inputs.items() if spec.shape is not None), None)
    device = f"{tensor}.device" if tensor else "None"
    result = names if len(definition.outputs) == 1 else f"({names})"
    lines = (f"_device = {device}", *outputs, f"{entry}({given}, {names})", f"return {result}")
    return "".join(f"        {line}\n" for line in lines)


def is_stored(workload: WorkloadRecord) -> bool:
    """Tell whether a workload reads tensors from files."""
    return any(isinstance(one, StoredInputRecord) for one in workload.inputs.values())


def _variable(definition: DefinitionRecord) -> list[str]:
    return [axis for axis, record in definition.axes.items() if record.type == "var"]


def bound(workload: WorkloadRecord, definition: DefinitionRecord) -> dict[str, Any]:
    """Return the globals that a workload gives the task; raises UserError where it lacks one."""
    scalars = [key for key, spec in definition.inputs.items() if spec.shape is None]
    missing = [axis for axis in _variable(definition) if axis not in workload.axes]
    if missing:
        raise UserError(
            f"{definition.name}: workload {workload.uuid} does not say how large {', '.join(missing)} are"
        )
    axes = {axis: workload.axes[axis] for axis in _variable(definition)}
    return axes | _scalars(workload, scalars, definition.name)


def _scalars(workload: WorkloadRecord, names: Sequence[str], definition: str) -> dict[str, Any]:
    found = {}
    for name in names:
        given = workload.inputs.get(name)
        if not isinstance(given, ScalarInputRecord):
            raise UserError(f"{definition}: workload {workload.uuid} gives no value for the scalar {name}")
        if isinstance(given.value, float) and not math.isfinite(given.value):
            raise UserError(
                f"{definition}: workload {workload.uuid} has {given.value} for the scalar {name}; "
                "only finite ones convert"
            )
        found[f"{name}_value"] = given.value
    return found


def _draw(name: str, spec: TensorRecord, definition: DefinitionRecord) -> str:
    if spec.shape is None:
        return f"{name}_value"
    if spec.dtype not in RANDOM:
        raise UserError(
            f"{definition.name}: input {name} is of type {spec.dtype}, which nobody here can draw"
        )
    shape = ", ".join(spec.shape) if spec.shape else ""
    text = RANDOM[spec.dtype] if shape else RANDOM[spec.dtype].replace("({shape},)", "()")
    return text.format(shape=shape or "()", dtype=spec.dtype)


def _shape(name: str, spec: TensorRecord, definition: DefinitionRecord) -> str:
    """Return an output's shape as an expression over the inputs."""
    sizes = []
    for axis in spec.shape or ():
        record = definition.axes[axis]
        where = [
            f"{key}.shape[{one.shape.index(axis)}]"
            for key, one in definition.inputs.items()
            if one.shape is not None and axis in one.shape
        ]
        if record.type == "var" and not where:
            raise UserError(f"{definition.name}: output {name} has the axis {axis}, which no input has")
        sizes.append(str(record.value) if record.type == "const" else where[0])
    return f"({', '.join(sizes)},)" if sizes else "()"


def _dtype(spec: TensorRecord) -> str:
    if spec.dtype not in RANDOM:
        raise UserError(f"an output is of type {spec.dtype!r}, which torch has no name for")
    return spec.dtype


def _kept_apart(source: str, function: str, own: set[str], label: str) -> MovedSource:
    """Return a source that binds ``function``, with other names of its own only where they meet none of ours.

    Raises:
        UserError: it is not Python, or defines no such function.
    """
    tree = parsed(source, label)
    names = bound_names(tree)
    if function not in names:
        raise UserError(f"{label} defines no function {function}")
    if not (names - IMPORTED) & own:
        return moved(source, tree)
    top, body = to_the_top(tree.body, stars=True)
    inner = ast.parse(f"def _theirs():\n    return {function}")
    scope = inner.body[0]
    assert isinstance(scope, ast.FunctionDef)
    scope.body = [*body, *scope.body]
    return MovedSource(top, f"{unparse(inner)}\n\n\n{function} = _theirs()")


def _title(definition: DefinitionRecord) -> str:
    text = f"{definition.name}, a definition of FlashInfer-Bench. {definition.description or ''}"
    return '"""' + " ".join(text.split()).replace("\\", "/").replace('"', "'") + '"""\n'

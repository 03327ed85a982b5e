"""FlashInfer-Bench in: definitions and workloads become task files, solutions kernels, traces claims."""

import ast
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernelwright.core.errors import UserError
from kernelwright.formats.claims import CLAIMS, PublishedClaim, claims_text
from kernelwright.formats.flashinfer_records import (
    DefinitionRecord,
    ScalarInputRecord,
    SolutionRecord,
    StoredInputRecord,
    TensorRecord,
    TraceRecord,
    WorkloadRecord,
)
from kernelwright.formats.package import (
    Converted,
    identifier,
    read_json,
    read_record,
    workloads_line,
)
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


def read_flashinfer(path: Path) -> Converted:
    """Read a dataset (``definitions/``, ``workloads/``, ``solutions/``, ``traces/``) or one definition.

    Raises:
        UserError: nothing is there, or a file is none of theirs.
    """
    root, files = _definitions(path)
    output: dict[str, str] = {}
    notes: list[str] = []
    claims: list[PublishedClaim] = []
    solutions = [_solution(file) for file in sorted((root / "solutions").rglob("*.json"))]
    for file in files:
        definition = read_record(DefinitionRecord, read_json(file), file)
        traces = list(_traces(root, definition.name))
        workloads = [trace.workload for trace in traces if trace.solution is None]
        name = identifier(definition.name)
        try:
            output[f"{name}.py"] = task_text(definition, workloads, notes)
        except UserError as error:
            notes.append(str(error))
            continue
        for solution in (one for one in solutions if one.definition == definition.name):
            try:
                output[f"{name}__{identifier(solution.name)}.py"] = kernel_text(definition, solution)
            except UserError as error:
                notes.append(str(error))
        claimed = [trace for trace in traces if trace.evaluation is not None and not _stored(trace.workload)]
        found = [_claim(trace, definition) for trace in claimed]
        claims += [claim for claim in found if claim.kernel in output]
        if left_out := sum(claim.kernel not in output for claim in found):
            notes.append(
                f"{definition.name}: {left_out} traces of solutions that did not convert are left out"
            )
    if not output:
        raise UserError(f"{path}: nothing could be converted; {'; '.join(notes)}")
    if claims:
        output[CLAIMS] = claims_text(claims)
    return Converted(output, tuple(dict.fromkeys(notes)))


def task_text(definition: DefinitionRecord, workloads: Sequence[WorkloadRecord], notes: list[str]) -> str:
    """Return a task file; adds to notes what it cannot say. Raises UserError where there can be no task."""
    name = definition.name
    usable = [one for one in workloads if not _stored(one)]
    if len(usable) < len(workloads):
        notes.append(f"{name}: {len(workloads) - len(usable)} workloads with stored tensors are left out")
    if workloads and not usable:
        raise UserError(
            f"{name}: every workload reads tensors from files; only random and scalar inputs convert"
        )
    variable = _variable(definition)
    if variable and not usable:
        raise UserError(f"{name}: no workload says how large {', '.join(variable)} are")
    bound = [_bound(one, definition) for one in usable]
    names = [*definition.axes, *definition.inputs]
    bad = [one for one in names if not one.isidentifier() or one in OWN]
    if bad:
        raise UserError(f"{name}: {', '.join(bad)} cannot be names of a task file's globals")
    reference = _kept_apart(definition.reference, "run", {*OWN, *names} - {"run"}, f"{name}: its reference")
    if definition.constraints:
        notes.append(f"{name}: constraints between axes are kept as a comment only")
    constants = {axis: record.value for axis, record in definition.axes.items() if record.type == "const"}
    first = {**constants, **(bound[0] if bound else {})}
    drawn = ",\n        ".join(_draw(key, spec, definition) for key, spec in definition.inputs.items())
    given = ", ".join(definition.inputs)
    sizes = "".join(f"{key} = {value!r}\n" for key, value in first.items())
    rules = "".join(f"# {rule}\n" for rule in definition.constraints)
    listed = workloads_line({one.uuid: values for one, values in zip(usable, bound, strict=True)})
    return f"""{_title(definition)}
import torch
from torch import nn

{sizes}{rules}{listed}
CATEGORY = {definition.op_type!r}

{reference}


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
        outputs = "".join(
            f"        {key} = torch.empty("
            f"{_shape(spec, definition)}, dtype=torch.{_dtype(spec)}, device=_device)\n"
            for key, spec in definition.outputs.items()
        )
        names = ", ".join(definition.outputs)
        tensor = next((key for key, spec in definition.inputs.items() if spec.shape is not None), None)
        device = f"{tensor}.device" if tensor else "None"
        result = names if len(definition.outputs) == 1 else f"({names})"
        lines = (f"_device = {device}", f"{entry}({given}, {names})", f"return {result}")
        first, *rest = (f"        {line}\n" for line in lines)
        call = f"{first}{outputs}{''.join(rest)}"
    by = identifier(solution.author)
    return f'''"""Solution {identifier(solution.name)} by {by}, from FlashInfer-Bench."""

import torch
from torch import nn

{source}


class ModelNew(nn.Module):
    def forward(self, {given}):
{call}'''


def _definitions(path: Path) -> tuple[Path, list[Path]]:
    """Return the dataset's root and the files of its definitions."""
    if path.is_file():
        above = [folder for folder in path.parents if folder.name == "definitions"]
        return (above[0].parent if above else path.parent), [path]
    files = sorted((path / "definitions").rglob("*.json"))
    if not files:
        raise UserError(
            f"{path}: no definitions/*.json there; name a FlashInfer-Bench dataset or a definition"
        )
    return path, files


def _solution(file: Path) -> SolutionRecord:
    return read_record(SolutionRecord, read_json(file), file)


def _traces(root: Path, name: str) -> Iterator[TraceRecord]:
    """Yield the workloads and traces of a definition."""
    for folder in ("workloads", "traces"):
        for file in sorted((root / folder).rglob(f"{name}.jsonl")):
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                if line.strip():
                    where = Path(f"{file}:{number}")
                    try:
                        yield read_record(TraceRecord, json.loads(line), where)
                    except ValueError as error:
                        raise UserError(f"{where}: no JSON ({error})") from error


def _stored(workload: WorkloadRecord) -> bool:
    return any(isinstance(one, StoredInputRecord) for one in workload.inputs.values())


def _variable(definition: DefinitionRecord) -> list[str]:
    return [axis for axis, record in definition.axes.items() if record.type == "var"]


def _bound(workload: WorkloadRecord, definition: DefinitionRecord) -> dict[str, Any]:
    """Return the globals that a workload gives the task."""
    scalars = [key for key, spec in definition.inputs.items() if spec.shape is None]
    axes = {axis: workload.axes[axis] for axis in _variable(definition)}
    return axes | _scalars(workload, scalars, definition.name)


def _scalars(workload: WorkloadRecord, names: Sequence[str], definition: str) -> dict[str, Any]:
    found = {}
    for name in names:
        given = workload.inputs.get(name)
        if not isinstance(given, ScalarInputRecord):
            raise UserError(f"{definition}: workload {workload.uuid} gives no value for the scalar {name}")
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


def _shape(spec: TensorRecord, definition: DefinitionRecord) -> str:
    """Return an output's shape as an expression over the inputs."""
    sizes = []
    for axis in spec.shape or ():
        record = definition.axes[axis]
        where = [
            f"{key}.shape[{one.shape.index(axis)}]"
            for key, one in definition.inputs.items()
            if one.shape is not None and axis in one.shape
        ]
        sizes.append(str(record.value) if record.type == "const" else where[0])
    return f"({', '.join(sizes)},)" if sizes else "()"


def _dtype(spec: TensorRecord) -> str:
    if spec.dtype not in RANDOM:
        raise UserError(f"an output is of type {spec.dtype!r}, which torch has no name for")
    return spec.dtype


def _kept_apart(source: str, function: str, own: set[str], label: str) -> str:
    """Return a source that binds ``function``, with other names of its own only where they meet none of ours.

    Raises:
        UserError: it is not Python, or defines no such function.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{label} is not Python ({error})") from error
    names = bound_names(tree)
    if function not in names:
        raise UserError(f"{label} defines no function {function}")
    if not (names - IMPORTED) & own:
        return source.strip()
    inner = ast.parse(f"def _theirs():\n    return {function}")
    scope = inner.body[0]
    assert isinstance(scope, ast.FunctionDef)
    scope.body = [*tree.body, *scope.body]
    return f"{ast.unparse(inner)}\n\n\n{function} = _theirs()"


def _title(definition: DefinitionRecord) -> str:
    text = " ".join((definition.description or "").split()).replace("\\", "/").replace('"', "'")
    return f'"""{definition.name}, a definition of FlashInfer-Bench.{" " + text if text else ""}"""\n'


def _claim(trace: TraceRecord, definition: DefinitionRecord) -> PublishedClaim:
    assert trace.evaluation is not None and trace.solution is not None
    performance = trace.evaluation.performance
    name = identifier(trace.definition)
    return PublishedClaim(
        task=f"{name}.py",
        kernel=f"{name}__{identifier(trace.solution)}.py",
        name=f"{trace.solution} on {trace.workload.uuid}",
        correct=trace.evaluation.status == "PASSED",
        speedup=performance.speedup_factor or None if performance else None,
        hardware=trace.evaluation.environment.hardware,
        source="FlashInfer-Bench",
        sizes=_bound(trace.workload, definition),
    )

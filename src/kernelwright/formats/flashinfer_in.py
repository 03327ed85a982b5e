"""FlashInfer-Bench in: definitions and workloads become task files, solutions kernels, traces claims."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelwright.core.errors import UserError
from kernelwright.formats.claims import CLAIMS, PublishedClaim, claims_text
from kernelwright.formats.flashinfer_files import find_definitions, read_records, read_traces
from kernelwright.formats.flashinfer_records import DefinitionRecord, SolutionRecord, TraceRecord
from kernelwright.formats.flashinfer_texts import bound, is_stored, kernel_text, task_text
from kernelwright.formats.package import Converted, counted, identifier
from kernelwright.formats.sources import require_python
from kernelwright.tasks.kernelbench import parse_task


def read_flashinfer(path: Path) -> Converted:
    """Read a dataset (``definitions/``, ``workloads/``, ``solutions/``, ``traces/``) or one definition.

    Raises:
        UserError: nothing is there, or nothing of it could be converted; of several, the others are.
    """
    root, files = find_definitions(path)
    notes: list[str] = []
    definitions = read_records(DefinitionRecord, files, notes)
    solutions = read_records(SolutionRecord, sorted((root / "solutions").rglob("*.json")), notes)
    output: dict[str, str] = {}
    tasks: list[str] = []
    claims: list[PublishedClaim] = []
    for definition in definitions:
        traces = read_traces(root, definition.name, notes)
        try:
            tasks.append(_add_task(definition, traces, output, notes))
        except UserError as error:
            notes.append(str(error))
            continue
        own = [one for one in solutions if one.definition == definition.name]
        claims += _claims(definition, traces, _add_kernels(definition, own, output, notes), notes)
    if not output:
        raise UserError(f"{path}: nothing could be converted; {'; '.join(notes)}")
    if claims:
        output[CLAIMS] = claims_text(claims)
    return Converted(output, tuple(dict.fromkeys(notes)), tuple(tasks))


def _add_task(
    definition: DefinitionRecord, traces: Sequence[TraceRecord], output: dict[str, str], notes: list[str]
) -> str:
    """Add the task's file to the output and return its name; raises UserError where there can be no task."""
    file = f"{identifier(definition.name)}.py"
    _require_free(file, output, definition.name)
    workloads = [trace.workload for trace in traces if trace.solution is None]
    text = require_python(task_text(definition, workloads, notes), definition.name)
    parse_task(text, Path(file))
    output[file] = text
    return file


def _add_kernels(
    definition: DefinitionRecord,
    solutions: Sequence[SolutionRecord],
    output: dict[str, str],
    notes: list[str],
) -> dict[str, str]:
    """Add the kernels' files to the output; return solution -> file of those that convert."""
    found: dict[str, str] = {}
    for solution in solutions:
        file = _kernel_file(definition, solution)
        label = f"{definition.name}: solution {solution.name}"
        try:
            _require_free(file, output, label)
            output[file] = require_python(kernel_text(definition, solution), label)
            found[solution.name] = file
        except UserError as error:
            notes.append(str(error))
    return found


def _kernel_file(definition: DefinitionRecord, solution: SolutionRecord) -> str:
    task = identifier(definition.name)
    return f"{task}__{identifier(solution.name).removeprefix(f'{task}__')}.py"


def _require_free(file: str, output: Mapping[str, str], label: str) -> None:
    if file in output:
        raise UserError(f"{label} is left out: another of that name is already in {file}")


def _claims(
    definition: DefinitionRecord,
    traces: Sequence[TraceRecord],
    kernels: Mapping[str, str],
    notes: list[str],
) -> list[PublishedClaim]:
    """Return what was claimed of the kernels that converted; solution -> file names these."""
    found: list[PublishedClaim] = []
    problems: list[str] = []
    judged = [trace for trace in traces if trace.solution is not None and not is_stored(trace.workload)]
    known = [trace for trace in judged if trace.solution in kernels]
    for trace in known:
        try:
            found.append(_claim(trace, definition, kernels))
        except UserError as error:
            problems.append(str(error))
    if left_out := len(judged) - len(known):
        notes.append(f"{definition.name}: {left_out} traces of solutions that did not convert are left out")
    notes += counted(problems, "traces")
    return found


def _claim(trace: TraceRecord, definition: DefinitionRecord, kernels: Mapping[str, str]) -> PublishedClaim:
    assert trace.evaluation is not None and trace.solution is not None  # the record goes with both or none
    performance = trace.evaluation.performance
    speedup = performance.speedup_factor if performance else 0.0
    return PublishedClaim(
        task=f"{identifier(definition.name)}.py",
        kernel=kernels[trace.solution],
        name=f"{trace.solution} on {trace.workload.uuid}",
        correct=trace.evaluation.status == "PASSED",
        speedup=speedup if math.isfinite(speedup) and speedup > 0 else None,
        hardware=trace.evaluation.environment.hardware,
        source="FlashInfer-Bench",
        sizes=bound(trace.workload, definition),
    )

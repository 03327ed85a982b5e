"""FlashInfer-Bench out: a task becomes a definition with workloads, kernels solutions, verdicts traces.

Their kernels are functions of tensors. So parameters and buffers of the module become inputs, and both the
reference and the kernel are called with them in the place of their own.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, count
from typing import Any

from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation, Status, WorkloadResult
from kernelwright.core.task import Mode, Task
from kernelwright.formats.flashinfer_records import (
    AxisRecord,
    BuildRecord,
    CorrectnessRecord,
    DefinitionRecord,
    EnvironmentRecord,
    InputRecord,
    JudgementRecord,
    PerformanceRecord,
    RandomInputRecord,
    ScalarInputRecord,
    SolutionRecord,
    SourceRecord,
    TensorRecord,
    TraceRecord,
    WorkloadRecord,
)
from kernelwright.formats.flashinfer_texts import RANDOM
from kernelwright.formats.package import Converted, Package, identifier
from kernelwright.formats.seen import SeenCall, SeenTensor, SeenValue, look
from kernelwright.tasks.kernelbench import task_category

NOT_MEASURED = float("nan")
UNKNOWN = "unknown"
"""Their traces must name hardware; most verdicts do not."""
STATUSES = {
    Status.VERIFIED: "PASSED",
    Status.INCORRECT_SHAPE: "INCORRECT_SHAPE",
    Status.INCORRECT_DTYPE: "INCORRECT_DTYPE",
    Status.INCORRECT_NUMERICS: "INCORRECT_NUMERICAL",
    Status.NON_FINITE: "INCORRECT_NUMERICAL",
    Status.PARSE_ERROR: "COMPILE_ERROR",
    Status.COMPILE_ERROR: "COMPILE_ERROR",
    Status.LOAD_ERROR: "COMPILE_ERROR",
    Status.TIMEOUT: "TIMEOUT",
}
"""Theirs for each of ours; whatever is not here is their RUNTIME_ERROR, which names the status in its log."""


def write_flashinfer(package: Package) -> Converted:
    """Return the files of a dataset; the package says how the task's code is run once on each workload.

    Raises:
        UserError: the task is none that their format can say.
    """
    task = package.task
    seen = [(package.look or look)(task, workload) for workload in task.workloads]
    if any(one.init != seen[0].init for one in seen):
        raise UserError(
            f"{task.name}: its constructor's arguments differ between workloads; export one at a time"
        )
    _require_types(task, seen)
    axes, shapes = _axes(task, seen)
    name, category = identifier(task.name), identifier(task_category(task) or "module")
    author = identifier(package.author)
    definition = _definition(task, name, category, seen[0], axes, shapes)
    records = [
        _workload(one, workload.name, axes, index)
        for index, (one, workload) in enumerate(zip(seen, task.workloads, strict=True))
    ]
    solutions = {
        kernel: _solution(package, kernel, solution, name, seen[0])
        for kernel, solution in _solution_names(package.kernels, name).items()
    }
    files = {f"definitions/{category}/{name}.json": _text(definition)}
    lines = [TraceRecord(definition=name, workload=one) for one in records]
    files[f"workloads/{category}/{name}.jsonl"] = _lines(lines)
    for solution in solutions.values():
        files[f"solutions/{author}/{category}/{name}/{solution.name}.json"] = _text(solution)
    traces = [
        trace
        for kernel, evaluation in package.evaluations.items()
        for trace in _traces(name, solutions[kernel], records, evaluation)
    ]
    if traces:
        files[f"traces/{author}/{category}/{name}.jsonl"] = _lines(traces)
    return Converted(files, tuple(_notes(task, traces)))


def _notes(task: Task, traces: Sequence[TraceRecord]) -> Iterator[str]:
    yield f"{task.name}: the tolerance {task.tolerance} is not said; theirs is their harness's"
    if traces:
        yield f"{task.name}: our errors have another scale; they stand under extra, theirs are NaN"
    if any(trace.evaluation and trace.evaluation.environment.hardware == UNKNOWN for trace in traces):
        yield f"{task.name}: the verdicts do not name the machine that they were made on; it is {UNKNOWN}"


def _solution_names(kernels: Iterable[str], definition: str) -> dict[str, str]:
    """Return the name of each kernel's solution: a dataset has each once, so the definition's comes first."""
    names: dict[str, str] = {}
    for kernel in kernels:
        name = f"{definition}__{identifier(kernel)}"
        if name in names.values():
            raise UserError(
                f"{kernel}: another kernel's solution is called {name} too; rename one of the files"
            )
        names[kernel] = name
    return names


def _state(seen: SeenCall) -> dict[str, str]:
    """Return the inputs that stand for parameters and buffers: name -> name in the state_dict."""
    names: dict[str, str] = {}
    taken = set(seen.inputs)
    for key in seen.state:
        name = _free(f"state_{identifier(key)}", taken)
        taken.add(name)
        names[name] = key
    return names


def _free(name: str, taken: Collection[str]) -> str:
    """Return the name, with a number where it is taken."""
    numbered = (f"{name}_{number}" for number in count(2))
    return next(one for one in chain([name], numbered) if one not in taken)


def _inputs(seen: SeenCall) -> dict[str, SeenValue]:
    """Return the inputs by name: of ``forward``, then the state's."""
    return {**seen.inputs, **{name: seen.state[key] for name, key in _state(seen).items()}}


def _require_types(task: Task, seen: Sequence[SeenCall]) -> None:
    tensors = [found for one in seen for found in _tensors(one).items()]
    if foreign := next(((key, one.dtype) for key, one in tensors if one.dtype not in RANDOM), None):
        raise UserError(f"{task.name}: {foreign[0]} is of type {foreign[1]}, which FlashInfer-Bench lacks")


def _axes(
    task: Task, seen: Sequence[SeenCall]
) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[str, ...]]]:
    """Return the value of each axis on each workload, and the axes of each tensor.

    Dimensions that are equal on every workload share an axis. It is named after a size global with these
    values where there is one.
    """
    known: dict[tuple[int, ...], str] = {}
    globals_ = {
        key: tuple(workload.overrides.get(key) for workload in task.workloads)
        for key in dict.fromkeys(key for workload in task.workloads for key in workload.overrides)
    }
    shapes: dict[str, tuple[str, ...]] = {}
    tensors = [_tensors(one) for one in seen]
    kinds = [{key: (len(value.shape), value.dtype) for key, value in one.items()} for one in tensors]
    if any(one != kinds[0] for one in kinds):
        raise UserError(
            f"{task.name}: inputs or outputs differ in kind between workloads; export one at a time"
        )
    for key in tensors[0]:
        dims = zip(*(one[key].shape for one in tensors), strict=True)
        shapes[key] = tuple(_axis(tuple(dim), known, globals_) for dim in dims)
    return {name: values for values, name in known.items()}, shapes


def _tensors(seen: SeenCall) -> dict[str, SeenTensor]:
    values = {**_inputs(seen), **_outputs(seen)}
    return {key: value for key, value in values.items() if isinstance(value, SeenTensor)}


def _axis(values: tuple[int, ...], known: dict[tuple[int, ...], str], globals_: dict[str, Any]) -> str:
    if values not in known:
        named = next((name for name, had in globals_.items() if had == values), None)
        known[values] = named or (f"n{values[0]}" if len(set(values)) == 1 else f"var{len(known)}")
    return known[values]


def _outputs(seen: SeenCall) -> dict[str, SeenTensor]:
    taken = _inputs(seen).keys()
    names = [f"output{i}" for i in range(len(seen.outputs))] if len(seen.outputs) > 1 else ["output"]
    return dict(zip((_free(name, taken) for name in names), seen.outputs, strict=True))


def _definition(
    task: Task,
    name: str,
    category: str,
    seen: SeenCall,
    axes: dict[str, tuple[int, ...]],
    shapes: dict[str, tuple[str, ...]],
) -> DefinitionRecord:
    outputs = _outputs(seen)
    records = {key: _tensor(value, shapes.get(key)) for key, value in {**_inputs(seen), **outputs}.items()}
    return DefinitionRecord(
        name=name,
        op_type=category,
        axes={key: _axis_record(values) for key, values in axes.items()},
        inputs={key: records[key] for key in _inputs(seen)},
        outputs={key: records[key] for key in outputs},
        reference=_reference(task, seen),
        tags=("from:kernelwright",),
        description=f"{task.name}, a PyTorch module with its parameters and buffers as inputs.",
    )


def _axis_record(values: tuple[int, ...]) -> AxisRecord:
    is_constant = len(set(values)) == 1
    return AxisRecord(type="const" if is_constant else "var", value=values[0] if is_constant else None)


def _tensor(value: Any, shape: tuple[str, ...] | None) -> TensorRecord:
    if isinstance(value, SeenTensor):
        return TensorRecord(shape=shape, dtype=value.dtype)
    dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
    return TensorRecord(shape=None, dtype=dtype)


def _reference(task: Task, seen: SeenCall) -> str:
    return f"{task.source.strip()}\n\n\n{_run('Model', task, seen)}"


def _run(cls: str, task: Task, seen: SeenCall) -> str:
    """Return the function ``run`` that calls a module with its state given as inputs."""
    state = ", ".join(f"{inner!r}: {key}" for key, inner in _state(seen).items())
    values = ", ".join(seen.init)
    mode = ".eval()" if task.mode is Mode.EVAL else ""
    return f"""_KEPT = []


def run({", ".join(_inputs(seen))}):
    if not _KEPT:
        _KEPT.append({cls}({values}){mode})
    return torch.func.functional_call(_KEPT[0], {{{state}}}, ({", ".join(seen.inputs)},))
"""


def _workload(seen: SeenCall, name: str, axes: dict[str, tuple[int, ...]], index: int) -> WorkloadRecord:
    inputs: dict[str, InputRecord] = {
        key: RandomInputRecord() if isinstance(value, SeenTensor) else ScalarInputRecord(value=value)
        for key, value in _inputs(seen).items()
    }
    bound = {name: values[index] for name, values in axes.items() if len(set(values)) > 1}
    return WorkloadRecord(axes=bound, inputs=inputs, uuid=name)


def _solution(package: Package, kernel: str, name: str, definition: str, seen: SeenCall) -> SolutionRecord:
    return SolutionRecord(
        name=name,
        definition=definition,
        author=package.author,
        spec=BuildRecord(
            language="python",
            target_hardware=(package.device,),
            entry_point="main.py::run",
            destination_passing_style=False,
        ),
        sources=(
            SourceRecord(
                path="main.py",
                content=f"{package.kernels[kernel].strip()}\n\n\n{_run('ModelNew', package.task, seen)}",
            ),
        ),
    )


def _traces(
    definition: str,
    solution: SolutionRecord,
    workloads: Sequence[WorkloadRecord],
    evaluation: Evaluation,
) -> Iterator[TraceRecord]:
    """Yield what the referee said of a kernel on each workload."""
    results = {result.workload: result for result in evaluation.told}
    for workload in workloads:
        judgement = JudgementRecord(
            status=STATUSES.get(evaluation.status, "RUNTIME_ERROR"),
            environment=EnvironmentRecord(hardware=evaluation.device or UNKNOWN),
            timestamp=datetime.now(UTC).isoformat(timespec="seconds"),
            log="" if evaluation.is_verified else f"{evaluation.status}: {evaluation.detail}",
            correctness=_correctness(evaluation, workload.uuid),
            performance=_performance(results.get(workload.uuid)),
        )
        yield TraceRecord(
            definition=definition, workload=workload, solution=solution.name, evaluation=judgement
        )


def _correctness(evaluation: Evaluation, workload: str) -> CorrectnessRecord | None:
    if STATUSES.get(evaluation.status) not in ("PASSED", "INCORRECT_NUMERICAL"):
        return None
    own = [error for error in evaluation.errors if error.workload == workload]
    extra = {
        "kernelwright_scaled_error": max((error.error for error in own), default=NOT_MEASURED),
        "kernelwright_allowed": min((error.allowed for error in own), default=NOT_MEASURED),
    }
    return CorrectnessRecord(max_relative_error=NOT_MEASURED, max_absolute_error=NOT_MEASURED, extra=extra)


def _performance(result: WorkloadResult | None) -> PerformanceRecord | None:
    if result is None:
        return None
    eager, speedup = result.baselines.get("eager"), result.speedup("eager")
    return PerformanceRecord(
        latency_ms=result.candidate.median_ms,
        reference_latency_ms=eager.median_ms if eager else 0.0,
        speedup_factor=speedup.ratio if speedup else 0.0,
    )


def _text(record: DefinitionRecord | SolutionRecord) -> str:
    return json.dumps(record.model_dump(mode="json", exclude_none=False), indent=2) + "\n"


def _lines(records: Sequence[TraceRecord]) -> str:
    return "".join(record.model_dump_json() + "\n" for record in records)

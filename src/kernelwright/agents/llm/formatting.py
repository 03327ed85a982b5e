"""Tasks, kernels, plans and timings in words, for prompts."""

import math
from collections.abc import Sequence
from typing import Any

from kernelwright.agents.llm.sources import fold
from kernelwright.agents.problem import Problem
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.plan import Move, Plan
from kernelwright.core.task import Mode, TolerancePolicy
from kernelwright.tasks.capture import Captured

MAX_OPERATORS = 60
"""Operators of a graph that are listed; our choice."""
_TOLERANCES = {
    TolerancePolicy.STRICT: (
        "strict: at most 4 times the float32 reference's own distance from the same reference in float64 "
        "(never less than some 16 units in the last place); no reduced precision"
    ),
    TolerancePolicy.TF32: "tf32: inputs of matrix products may be rounded to 10 bits of mantissa",
    TolerancePolicy.BF16: "bf16: inputs of matrix products may be rounded to 7 bits of mantissa",
    TolerancePolicy.KERNELBENCH: "allclose with rtol = atol = 1e-4 against the float32 reference",
}

SCALED = (
    "Two errors count, against the exact result e: the largest |x - e| / (|e| + rms(e)), and |x - e| over "
    "|e|. Inputs with huge, odd or single large values are allowed more; a verdict names the kind."
)


def number(value: object) -> str:
    """Return a figure as prompts show it: four digits."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.4g}"
    return str(value)


def contract(problem: Problem) -> str:
    """Return shapes, types, parameters and tolerance: what a candidate must keep."""
    task = problem.task
    lines = [f"Task {task.name}, target {problem.target}."]
    lines += [f"- {_workload(problem, workload.name)}" for workload in task.workloads]
    state = next(iter(problem.captured.values()), None)
    if state is not None:
        lines += _state(state)
    mode = "`.eval()` is called on the module" if task.mode is Mode.EVAL else "as constructed (train mode)"
    scaled = "" if task.tolerance is TolerancePolicy.KERNELBENCH else f" {SCALED}"
    lines += [f"- Mode: {mode}.", f"- Tolerance: {_TOLERANCES[task.tolerance]}.{scaled}"]
    return "\n".join(lines)


def operators(captured: Captured) -> str:
    """Return the captured graph as a list of operators with their shapes; no line of anybody's source."""
    nodes = [node for node in captured.graph.nodes if node.op == "call_function"]
    listed = nodes[:MAX_OPERATORS]
    shown = [f"- {str(node.target).removeprefix('aten.')} -> {_value(node)}" for node in listed]
    more = len(nodes) - len(shown)
    return "\n".join([*shown, *([f"- and {more} more"] if more > 0 else [])])


def source_block(source: str) -> str:
    """Return a Python file as a fenced block, its loader folded."""
    return f"```python\n{fold(source).rstrip()}\n```"


def verdict(evaluation: Evaluation, *, timings_only: bool = False) -> str:
    """Return how an evaluation ended, in one line."""
    if evaluation.is_verified:
        times = "; ".join(latencies(evaluation, has_eager=not timings_only)) or "not timed"
        shown = [] if timings_only else [_against(evaluation), _error(evaluation)]
        marked = "verified, disturbed" if evaluation.is_disturbed and not timings_only else "verified"
        return "; ".join([f"{marked}, {times}", *(part for part in shown if part)])
    detail = f" ({evaluation.detail})" if evaluation.detail and not timings_only else ""
    return f"{evaluation.status}{detail}"


def intervals(evaluation: Evaluation) -> str:
    """Return the speedups over eager with their intervals, one for each workload; empty where not timed."""
    found = [(r.workload, s) for r in evaluation.results if (s := r.speedup("eager")) is not None]
    named = len(found) > 1
    return "; ".join(
        f"{f'{name} ' if named else ''}{s.ratio:.2f}x [{s.low:.2f}, {s.high:.2f}]" for name, s in found
    )


def error_used(evaluation: Evaluation) -> str:
    """Return the largest share of the allowed error that an output used, with its input distribution."""
    known = [e for e in evaluation.errors if e.allowed > 0]
    if not known:
        return ""
    worst = max(known, key=lambda e: e.error / e.allowed)
    return f"{100 * worst.error / worst.allowed:.0f} % of {number(worst.allowed)} ({worst.family})"


def errors_used(evaluation: Evaluation) -> str:
    """Return for each kind of inputs how much of the allowed error was used; empty where that is unknown."""
    used: dict[str, float] = {}
    for one in evaluation.errors:
        if one.allowed > 0:
            used[one.family] = max(used.get(one.family, 0.0), one.error / one.allowed)
    if len(used) < 2:
        return ""
    told = ", ".join(f"{family} {100 * share:.0f} %" for family, share in used.items())
    return (
        f"Share of the allowed error by kind of inputs, of the two errors the one nearer its bound: {told}."
    )


def _against(evaluation: Evaluation) -> str:
    shown = intervals(evaluation)
    return f"{shown} over eager" if shown else ""


def _error(evaluation: Evaluation) -> str:
    used = error_used(evaluation)
    return f"error used: {used}" if used else ""


def latencies(evaluation: Evaluation, *, has_eager: bool) -> list[str]:
    """Return the median latency of each workload, with eager's: those of two minutes do not compare."""
    return [
        f"{result.workload} {number(result.candidate.median_ms)} ms"
        + (f" (eager {number(eager.median_ms)} ms)" if has_eager and eager is not None else "")
        for result in evaluation.results
        for eager in [result.baselines.get("eager")]
    ]


def move_line(move: Move) -> str:
    """Return a move in one line: what, where, with which parameters, why."""
    where = f" on {move.region}" if move.region else ""
    params = ", ".join(f"{name}={value}" for name, value in sorted(move.params.items()))
    given = f" ({params})" if params else ""
    why = f": {move.why}" if move.why else ""
    steps = f" Steps: {' '.join(move.text.split())}" if move.text else ""
    return f"{move.skill}{where}{given}{why}{'.' if steps and not why.endswith('.') else ''}{steps}"


def steps_of(move: Move) -> list[str]:
    """Return the steps of a move without their numbers; a move without text is one step."""
    lines = [line.partition(". ")[2] or line for line in move.text.splitlines() if line.strip()]
    return lines or [move_line(move)]


def plan_steps(plan: Plan) -> str:
    """Return what a Coder accounts for, numbered: the steps of a single move, else one step for each move."""
    if len(plan.moves) != 1 or not plan.moves[0].text:
        return plan_lines(plan)
    move = plan.moves[0]
    steps = [f"{n}. {step}" for n, step in enumerate(steps_of(move), start=1)]
    return "\n".join([f"{move_line(move.model_copy(update={'text': ''}))}.", *steps])


def plan_lines(plan: Plan) -> str:
    """Return a plan as a numbered list."""
    return "\n".join(f"{n}. {move_line(move)}" for n, move in enumerate(plan.moves, start=1))


def _workload(problem: Problem, name: str) -> str:
    captured = problem.captured.get(name)
    if captured is None:
        overrides = next(w.overrides for w in problem.task.workloads if w.name == name)
        bound = ", ".join(f"{key} = {value!r}" for key, value in overrides.items())
        return f"Workload {name}: inputs as `get_inputs` gives them{f' with {bound}' if bound else ''}."
    inputs = [p for p in captured.placeholders if p.kind == "input"]
    takes = ", ".join(f"{list(p.shape)} {_dtype(p.dtype)}" for p in inputs)
    nodes = {node.name: node for node in captured.graph.nodes}
    gives = ", ".join("None" if name is None else _value(nodes[name]) for name in captured.outputs)
    returned = f"a tuple of {gives}" if captured.returns_tuple else gives
    return f"Workload {name}: takes {takes or 'nothing'}; returns {returned}."


def _state(captured: Captured) -> list[str]:
    kept = [p for p in captured.placeholders if p.kind in ("parameter", "buffer")]
    if not kept:
        return ["- No parameters and no buffers."]
    names = "; ".join(f"{p.source} {list(p.shape)} {_dtype(p.dtype)}" for p in kept)
    lines = [f"- Parameters and buffers: {names}."]
    if captured.mutations:
        lines.append(f"- Every call updates {', '.join(sorted(captured.mutations))}.")
    return lines


def _value(node: object) -> str:
    value = getattr(node, "meta", {}).get("val")
    values: Sequence[Any] = value if isinstance(value, tuple | list) else [value]
    shown = [
        f"{[int(n) for n in v.shape]} {_dtype(v.dtype)}" if hasattr(v, "shape") else "no tensor"
        for v in values
    ]
    return ", ".join(shown)


def _dtype(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")

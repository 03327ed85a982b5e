"""The kernels of a run as a prompt shows them: one table of all."""

from collections.abc import Collection, Iterator, Sequence

from kernelwright.agents.llm import formatting as showing
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.sources import approach_of
from kernelwright.agents.roles import Node
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import DRIFT, WorkloadResult

MAX_ROWS = 40
"""Kernels in the table; our choice. Of more, the fastest half and the latest half are listed."""
CELL_CHARS = 160
CODE = {
    "compiler.vector_bytes": "vectors of {} B",
    "compiler.vector_fma": "{} FMA",
    "compiler.gathers": "{} gathers",
    "compiler.spills": "{} spills",
    "aot.registers": "{} registers",
    "aot.spills": "{} spilled",
    "aot.occupancy": "occupancy {}",
    "run.thread_scaling": "threads {}x",
}
"""Facts of a kernel's machine code, and how a row tells them."""


def run_table(told: PromptInput) -> list[str]:
    """Return every kernel of the run as a table; where the run is not told, those whose source is shown."""
    situation = told.situation
    base = (situation.base,) if situation.base is not None else ()
    return kernels_table(
        situation.run or (*base, *situation.window),
        timings_only=situation.timings_only,
        base=situation.base.candidate.id if situation.base is not None else None,
        is_analysed=situation.analysis is not None and base[0].evaluation.is_verified if base else False,
    )


def kernels_table(
    kernels: Sequence[Node], *, timings_only: bool, base: str | None = None, is_analysed: bool = False
) -> list[str]:
    """Return kernels as a table, each once, in the order given; nothing where there are none.

    Where the recipe works on timings alone, all else that was measured is left out. How the base fails, and
    its code where it is analysed, have sections of their own.
    """
    nodes = list({node.candidate.id: node for node in kernels}.values())
    kept = _few(nodes)
    if not kept:
        return []
    workloads = list(dict.fromkeys(r.workload for node in nodes for r in node.evaluation.results))
    measured = [] if timings_only else ["over eager [95 % interval]", "error used"]
    unit = "ms" if timings_only else "ms; eager beside it"
    times = [f"{name} ({unit})" for name in workloads]
    is_compared = not timings_only and any(node.over_base is not None for node in kept)
    compared = ["timed in turn with another"] if is_compared else []
    disturbed = set() if timings_only else _disturbed(nodes)
    codes = {} if timings_only else {node.candidate.id: _code(node) for node in kept}
    if is_analysed and base in codes:
        del codes[base]
    has_code = any(codes.values())
    head = ["id", "made from", "status", *times, *measured, *compared]
    head += [*(["machine code"] if has_code else []), "last change"]
    rows = [head, ["---"] * len(head)]
    for node in kept:
        is_base = node.candidate.id == base
        ended = _ended(node, disturbed, has_reason=not (timings_only or is_base))
        row = _row(node, ended, workloads, timings_only=timings_only)
        row += [_compared(node)] if is_compared else []
        row += [codes.get(node.candidate.id, "its evidence") or "-"] if has_code else []
        rows.append([*row, _cell(_change(node.candidate))])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    left = len(nodes) - len(kept)
    return [table, *([f"{left} slower or older kernels are left out."] if left else [])]


def _speedup(node: Node) -> float:
    return node.evaluation.geomean_speedup() or 0.0


def _few(nodes: Sequence[Node]) -> Sequence[Node]:
    if len(nodes) <= MAX_ROWS:
        return nodes
    half = MAX_ROWS // 2
    kept = {n.candidate.id for n in (*sorted(nodes, key=_speedup, reverse=True)[:half], *nodes[-half:])}
    return [node for node in nodes if node.candidate.id in kept]


def _disturbed(nodes: Sequence[Node]) -> set[str]:
    """Return the kernels beside whose timing other work went on, as far as the run knows by now."""
    least: dict[str, float] = {}
    for node in nodes:
        for workload, ms in _eager_ms(node):
            least[workload] = min(least.get(workload, ms), ms)
    return {
        node.candidate.id
        for node in nodes
        if node.evaluation.is_disturbed or any(ms > DRIFT * least[name] for name, ms in _eager_ms(node))
    }


def _eager_ms(node: Node) -> Iterator[tuple[str, float]]:
    for result in node.evaluation.results:
        if (eager := result.baselines.get("eager")) is not None:
            yield result.workload, eager.median_ms


def _row(node: Node, ended: str, workloads: Sequence[str], *, timings_only: bool) -> list[str]:
    candidate, evaluation = node.candidate, node.evaluation
    times = {r.workload: _times(r, timings_only=timings_only) for r in evaluation.results}
    measured = (
        [] if timings_only else [showing.intervals(evaluation) or "-", showing.error_used(evaluation) or "-"]
    )
    return [
        candidate.id,
        " ".join(candidate.parents) or "-",
        ended,
        *(times.get(name, "-") for name in workloads),
        *measured,
    ]


def _change(candidate: Candidate) -> str:
    """Return what the last move changed, not why; of a seed what its author said of it."""
    if not candidate.plan.moves:
        return approach_of(candidate.source) or "seed"
    last = candidate.plan.moves[-1]
    if last.text:
        return "; ".join(showing.steps_of(last))
    is_named = last.region or last.params or not last.why
    return showing.move_line(last.model_copy(update={"why": ""})) if is_named else last.why


def _code(node: Node) -> str:
    """Return what is known of a kernel's machine code; empty where nothing is."""
    facts = node.evaluation.facts
    known = ((words, facts.get(name)) for name, words in CODE.items())
    return ", ".join(words.format(showing.number(fact)) for words, fact in known if fact is not None)


def _compared(node: Node) -> str:
    return "-" if node.over_base is None else node.over_base.against(node.over_base.baseline)


def _ended(node: Node, disturbed: Collection[str], *, has_reason: bool) -> str:
    """Return the status, of a failing kernel with the reason where there is room for one."""
    evaluation = node.evaluation
    if node.candidate.id in disturbed:
        return f"{evaluation.status}, disturbed"
    is_told = has_reason and evaluation.detail and not evaluation.is_verified
    return f"{evaluation.status}: {_cell(evaluation.detail)}" if is_told else str(evaluation.status)


def _times(result: WorkloadResult, *, timings_only: bool) -> str:
    """Return milliseconds, and eager's in the same minute: those of two minutes do not compare."""
    own, eager = showing.number(result.candidate.median_ms), result.baselines.get("eager")
    return own if eager is None or timings_only else f"{own}; {showing.number(eager.median_ms)}"


def _cell(text: str) -> str:
    """Return a text that fits a cell of a table."""
    return " ".join(text.replace("|", "/").split())[:CELL_CHARS]

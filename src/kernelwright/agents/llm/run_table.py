"""The kernels of a run as a prompt shows them: one table of all."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from kernelwright.agents.llm import formatting as showing
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.sources import approach_of
from kernelwright.agents.roles import Node
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import DRIFT, WorkloadResult
from kernelwright.core.roofline import Floor

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

Column = tuple[str, Sequence[str]]
"""Title and a cell for each kernel; an empty cell is shown as a dash."""


def run_table(told: PromptInput) -> list[str]:
    """Return every kernel of the run as a table; where the run is not told, those whose source is shown."""
    situation = told.situation
    base = (situation.base,) if situation.base is not None else ()
    return kernels_table(
        situation.run or (*base, *situation.window),
        timings_only=situation.timings_only,
        floors=told.problem.floors,
        base=situation.base.candidate.id if situation.base is not None else None,
        is_analysed=situation.analysis is not None and base[0].evaluation.is_verified if base else False,
    )


def kernels_table(
    kernels: Sequence[Node],
    *,
    timings_only: bool,
    floors: Mapping[str, Floor] | None = None,
    base: str | None = None,
    is_analysed: bool = False,
) -> list[str]:
    """Return kernels as a table, each once, in the order given; nothing where there are none.

    Where the recipe works on timings alone, all else that was measured is left out. How the base fails, and
    its code where it is analysed, have sections of their own.
    """
    nodes = list({node.candidate.id: node for node in kernels}.values())
    kept = _few(nodes)
    if not kept:
        return []
    columns = [
        ("id", [node.candidate.id for node in kept]),
        ("made from", [" ".join(node.candidate.parents) for node in kept]),
        *_authors(kept),
        ("status", _ends(kept, _disturbed(nodes), timings_only=timings_only, base=base)),
        *_times(kept, timings_only=timings_only),
        *([] if timings_only else _measured(kept, floors or {}, base if is_analysed else None)),
        ("last change", [_cell(_change(node.candidate)) for node in kept]),
    ]
    titles, cells = zip(*columns, strict=True)
    rows = [titles, ["---"] * len(titles)]
    rows += [[cell or "-" for cell in row] for row in zip(*cells, strict=True)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    left = len(nodes) - len(kept)
    return [table, *([f"{left} slower or older kernels are left out."] if left else [])]


NOT_THE_MODEL = ("the expert", "the user")
"""Authors that a model is told of: its own kernels and the reference need no name."""


def author_of(candidate: Candidate) -> str:
    """Return who wrote a kernel, as prompts say it."""
    if candidate.call:
        return "you"
    return {"user": "the user", "reference": "the reference"}.get(candidate.role, "the expert")


def _speedup(node: Node) -> float:
    return node.evaluation.geomean_speedup() or 0.0


def _few(nodes: Sequence[Node]) -> Sequence[Node]:
    if len(nodes) <= MAX_ROWS:
        return nodes
    half = MAX_ROWS // 2
    kept = {n.candidate.id for n in (*sorted(nodes, key=_speedup, reverse=True)[:half], *nodes[-half:])}
    return [node for node in nodes if node.candidate.id in kept]


def _authors(kept: Sequence[Node]) -> list[Column]:
    """Return who wrote which, where it was not the model alone."""
    found = [author_of(node.candidate) for node in kept]
    return [("written by", found)] if set(NOT_THE_MODEL) & set(found) else []


def _ends(
    kept: Sequence[Node], disturbed: Collection[str], *, timings_only: bool, base: str | None
) -> list[str]:
    """Return the status of each, of a failing kernel with the reason where no section of its own has it."""
    ends = []
    for node in kept:
        evaluation, is_base = node.evaluation, node.candidate.id == base
        is_told = evaluation.detail and not (evaluation.is_verified or timings_only or is_base)
        said = f"{evaluation.status}: {_cell(evaluation.detail)}" if is_told else str(evaluation.status)
        is_marked = node.candidate.id in disturbed and not timings_only
        ends.append(f"{evaluation.status}, disturbed" if is_marked else said)
    return ends


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


def _times(kept: Sequence[Node], *, timings_only: bool) -> list[Column]:
    """Return milliseconds, and eager's in the same minute: those of two minutes do not compare."""
    unit = "ms" if timings_only else "ms; eager beside it"
    found = [{r.workload: _time(r, timings_only) for r in node.evaluation.results} for node in kept]
    workloads = dict.fromkeys(name for times in found for name in times)
    return [(f"{name} ({unit})", [times.get(name, "") for times in found]) for name in workloads]


def _time(result: WorkloadResult, timings_only: bool) -> str:
    own, eager = showing.number(result.candidate.median_ms), result.baselines.get("eager")
    return own if eager is None or timings_only else f"{own}; {showing.number(eager.median_ms)}"


def _measured(kept: Sequence[Node], floors: Mapping[str, Floor], analysed: str | None) -> list[Column]:
    """Return what only some recipes may see; columns in which nothing is known are left out."""
    compared = [node.over_base.against(node.over_base.baseline) if node.over_base else "" for node in kept]
    codes = [_code(node) if node.candidate.id != analysed else "its evidence" for node in kept]
    has_code = any(code not in ("", "its evidence") for code in codes)
    return [
        ("over eager [95 % interval]", [showing.intervals(node.evaluation) for node in kept]),
        *_bandwidths(kept, floors),
        ("error used", [showing.error_used(node.evaluation) for node in kept]),
        *([("timed in turn with another", compared)] if any(compared) else []),
        *([("machine code", codes)] if has_code else []),
    ]


def _bandwidths(kept: Sequence[Node], floors: Mapping[str, Floor]) -> list[Column]:
    """Return the bytes that the task has to move, over latency: how much bandwidth was reached."""
    found = [
        "; ".join(
            showing.number(floors[result.workload].work.min_bytes / result.candidate.median_ms / 1e6)
            for result in node.evaluation.results
            if result.workload in floors
        )
        for node in kept
    ]
    return [("GB/s of required bytes", found)] if any(found) else []


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


def _cell(text: str) -> str:
    """Return a text that fits a cell of a table."""
    return " ".join(text.replace("|", "/").split())[:CELL_CHARS]

"""Computes the content of each section of the report from the records; no markup except in charts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, NumericalError
from kernelwright.core.evidence import METRICS, FactValue
from kernelwright.core.roofline import Floor
from kernelwright.core.run import RunSpec
from kernelwright.core.task import TolerancePolicy
from kernelwright.report import charts
from kernelwright.report.asked import BY_PRICES, asked_of
from kernelwright.report.lineage import LineageNode, lineage
from kernelwright.report.measures import (
    baseline_ms,
    duration,
    fact,
    floor_fraction,
    geomean,
    latency_ms,
    millis,
    percent,
    speedup_over,
    times,
    ways_timed,
)
from kernelwright.report.roofline import CACHED, Ceilings, RooflinePoint, floor_gbps, roofline
from kernelwright.report.story import Story, StoryStep

BASELINES = (("eager", "eager"), ("torch_compile", "torch.compile"))


FAMILY_WORDS: Mapping[str, str] = {
    "as_is": "as the task draws them",
    "scaled": "multiplied by a large or a small factor",
    "negated": "with the opposite sign",
    "sparse_spikes": "small, with a few large values",
    "heavy_tail": "with rare huge values",
    "offset": "moved so that their mean is far from zero",
    "coarse": "rounded to few values, so that many are equal",
    "permuted": "the same values in another order",
    "sorted": "every row sorted",
    "odd_rows": "a quarter of the rows zero, constant, one-hot or huge",
    "few_odd_rows": "the same in one row of 64",
    "odd_elements": "single zeros, huge and tiny values",
    "mild_rows": "odd rows within the range of the task's values",
    "mild_elements": "odd elements within the range of the task's values",
    "zeros": "all zero",
    "flat": "all the same value",
    "alike": "inputs of one shape nearly the same",
    "mixed": "odd rows and odd elements together",
    "nonfinite": "with NaN or infinity in a few rows",
}
"""The referee's kinds of inputs in words; docs/referee/inputs.md has the whole of it."""


@dataclass(frozen=True)
class Tile:
    """One figure at the top of the page."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class ErrorRow:
    """The worst sample of one output under one input distribution."""

    workload: str
    family: str
    output: str
    words: str
    """What kind of inputs these are."""
    error: str
    reference_error: str
    allowed: str
    share: float
    """Error over allowed error; below 1 passes."""


@dataclass(frozen=True)
class TimingRow:
    """One callable on one workload."""

    workload: str
    what: str
    median: str
    spread: str
    samples: str
    speedup: str


def deciding_evaluation(story: Story) -> Evaluation | None:
    """Return the final evaluation, or the best one of the search where there is none."""
    if story.finished is not None and story.finished.evaluation is not None:
        return story.finished.evaluation
    return story.best.evaluation if story.best is not None else None


def tiles(story: Story) -> list[Tile]:
    """Return the figures that summarise the run."""
    found = []
    evaluation = deciding_evaluation(story)
    delivered = story.finished is None or story.finished.winner is not None
    if evaluation is not None and evaluation.is_verified and delivered:
        for name, label in BASELINES:
            speedup = speedup_over(evaluation, name)
            if speedup is not None:
                note = f"95 % interval {speedup.low:.2f} to {speedup.high:.2f}"
                found.append(Tile(f"over {label}", times(speedup.ratio), note))
        fraction, ms = floor_fraction(evaluation), latency_ms(evaluation)
        if fraction is not None:
            found.append(Tile("of the fastest possible speed", percent(fraction), "by the roofline floor"))
        if ms is not None:
            found.append(Tile("per call", millis(ms), "median"))
    verified = sum(step.evaluation.is_verified for step in story.evaluated if step.evaluation)
    found.append(Tile("evaluations", str(len(story.evaluated)), f"{verified} verified"))
    if story.finished is not None:
        found.append(Tile("total time", duration(story.finished.spent.seconds), "with the final measurement"))
    return found


def model_tiles(spec: RunSpec, story: Story) -> list[Tile]:
    """Return the figures about models of an ended run; none when it called no model."""
    asked = asked_of(spec.models, story)
    if asked is None:
        return []
    found = [
        Tile("usable answers", asked.usable, "from models"),
        Tile("tokens", f"{asked.spent.tokens:,}", f"requests to models: {asked.spent.model_calls}"),
    ]
    return found if asked.dollars is None else [*found, Tile("for models", asked.dollars, BY_PRICES)]


def latency_chart(story: Story) -> str | None:
    """Draw eager, torch.compile, the winner and the floor; None without a verified measurement."""
    evaluation = deciding_evaluation(story)
    ms = latency_ms(evaluation) if evaluation is not None else None
    if evaluation is None or ms is None:
        return None
    bars = [
        charts.Bar(label, value, name)
        for name, label in BASELINES
        if (value := baseline_ms(evaluation, name)) is not None
    ]
    is_winner = story.finished is not None and story.finished.winner == evaluation.candidate_id
    eager = speedup_over(evaluation, "eager")
    note = str(eager) if eager is not None else ""
    bars.append(charts.Bar("kernelwright" if is_winner else "best candidate", ms, "winner", note))
    floor_ms = geomean(r.floor_ms for r in evaluation.told if r.floor_ms is not None)
    if floor_ms is not None:
        bars.append(charts.Bar("floor", floor_ms, "floor"))
    return charts.latency_bars(bars)


def curve_chart(story: Story) -> str | None:
    """Draw the speedup of every evaluation; None before the first one."""
    evaluation = deciding_evaluation(story)
    ratio = None
    if evaluation is not None:
        eager, compiled = (speedup_over(evaluation, name) for name, _ in BASELINES)
        ratio = eager.ratio / compiled.ratio if eager and compiled else None
    finals = [step for step in story.steps if step.mode == "final" and step.evaluation is not None]
    return charts.speedup_curve(story.evaluated, ratio, finals) if story.evaluated else None


def ceilings(spec: RunSpec, story: Story) -> Ceilings | None:
    """Return the machine's measured peaks as the run recorded them, None where it did not."""
    sources = [step.diagnosed.evidence.facts for step in story.steps if step.diagnosed is not None]
    for facts in (*sources, spec.environment):
        bandwidth, fma = facts.get("machine.bandwidth_gbps"), facts.get("machine.fma_gflops")
        if isinstance(bandwidth, int | float) and isinstance(fma, int | float) and bandwidth > 0 and fma > 0:
            return Ceilings(float(bandwidth), float(fma))
    return None


def roofline_chart(spec: RunSpec, story: Story) -> tuple[str | None, str]:
    """Return the first workload's roofline, or None, and a note about it or about why there is none."""
    floor = _first_floor(story)
    peaks = ceilings(spec, story)
    evaluation = deciding_evaluation(story)
    if floor is None:
        error = story.prepared.capture_error if story.prepared else None
        return None, f"No floor is known: {error or 'the module was not captured'}."
    if peaks is None:
        return None, "The machine's peaks are not in the record of this run."
    if floor.work.flops == 0:
        return None, "This task does no arithmetic; its floor is the time to move its bytes."
    dots = _roofline_dots(story, evaluation)
    where = _bound_by(floor)
    note = f"The floor is set by {where}: {millis(floor.ms)}."
    if floor.counts_products:
        note += " It counts products term by term: algorithms with fewer operations (Winograd's) may beat it."
    if floor.bound_by == "memory" and floor_gbps(floor.work, floor.ms) > CACHED * peaks.bandwidth_gbps:
        note += " The working set fits in the caches (dashed line)."
    return roofline(peaks, floor.work, floor.ms, dots), note


def _first_floor(story: Story) -> Floor | None:
    return story.prepared.floors[0] if story.prepared and story.prepared.floors else None


def _bound_by(floor: Floor) -> str:
    if floor.bound_by == "memory":
        return "memory bandwidth"
    return "elementary functions" if floor.functions_ms >= floor.ms else "arithmetic"


def _roofline_dots(story: Story, evaluation: Evaluation | None) -> list[RooflinePoint]:
    dots = []
    if evaluation is not None and evaluation.told:
        result = evaluation.told[0]
        dots.append(RooflinePoint("winner", result.candidate.median_ms, "winner"))
        dots += [
            RooflinePoint(label, result.baselines[name].median_ms, name)
            for name, label in BASELINES
            if name in result.baselines
        ]
    elif story.prepared is not None and story.prepared.baselines_ms:
        dots.append(RooflinePoint("eager", next(iter(story.prepared.baselines_ms.values())), "eager"))
    base = next((s for s in story.evaluated if s.became_base), None)
    if base is not None and base.evaluation is not None and base.evaluation.told:
        same = evaluation is not None and base.candidate == evaluation.candidate_id
        if not same:
            dots.append(RooflinePoint("first base", base.evaluation.told[0].candidate.median_ms, "base"))
    return dots


def step_numbers(story: Story) -> list[str]:
    """Return for each step which evaluation it was, as on the curve; a dash for none, nothing for a final."""
    numbers = {id(step): str(number) for number, step in enumerate(story.evaluated, 1)}
    return ["" if step.mode == "final" else numbers.get(id(step), "-") for step in story.steps]


def lineage_chart(story: Story, candidates: Iterable[Candidate]) -> str | None:
    """Draw which candidate was made from which; None before the first candidate."""
    by_id = {candidate.id: candidate for candidate in candidates}
    nodes: list[LineageNode] = []
    for number, step in enumerate(story.evaluated, 1):
        candidate = by_id.get(step.candidate or "")
        if candidate is None or any(node.id == candidate.id for node in nodes):
            continue
        parent = candidate.parents[0] if candidate.parents else ""
        nodes.append(LineageNode(candidate.id, parent, *_node_text(number, step)))
    winner = story.finished.winner if story.finished else None
    return lineage(nodes, winner) if nodes else None


def _node_text(number: int, step: StoryStep) -> tuple[str, str, str]:
    if step.speedup is None:
        return f"{number}: failed", f"{step.title}: {step.outcome}. {step.explanation}", "failed"
    return (
        f"{number}: {times(step.speedup.ratio)}",
        f"{step.title}: {step.speedup} over eager",
        "verified",
    )


def error_rows(errors: Sequence[NumericalError]) -> list[ErrorRow]:
    """Return the worst sample for each workload, distribution and output, in order of first appearance."""
    worst: dict[tuple[str, str, str], NumericalError] = {}
    for error in errors:
        key = (error.workload, error.family, error.output)
        if key not in worst or _share(error) > _share(worst[key]):
            worst[key] = error
    return [
        ErrorRow(
            *key,
            words=FAMILY_WORDS.get(key[1], ""),
            error=f"{e.error:.2e}",
            reference_error=f"{e.reference_error:.2e}",
            allowed=f"{e.allowed:.2e}",
            share=_share(e),
        )
        for key, e in worst.items()
    ]


def _share(error: NumericalError) -> float:
    if error.allowed > 0:
        return error.error / error.allowed
    return 0.0 if error.error == 0 else float("inf")


def timing_rows(evaluation: Evaluation) -> list[TimingRow]:
    """Return the candidate and every baseline on every workload."""
    rows = []
    found = [(words, result) for words, results in ways_timed(evaluation).items() for result in results]
    for words, result in found:
        timed = [("kernel", result.candidate, ""), *((n, t, n) for n, t in result.baselines.items())]
        for name, timing, baseline in timed:
            speedup = result.speedup(baseline) if baseline else None
            shown = f"{times(speedup.ratio)} [{speedup.low:.2f}, {speedup.high:.2f}]" if speedup else ""
            rows.append(
                TimingRow(
                    workload=result.workload,
                    what=", ".join(filter(None, (dict(BASELINES).get(name, name), words))),
                    median=millis(timing.median_ms),
                    spread=f"{millis(timing.p10_ms)} to {millis(timing.p90_ms)}",
                    samples=f"{timing.n_samples} x {timing.calls_per_sample}",
                    speedup=shown,
                )
            )
    return rows


def kernel_facts(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Return the facts from compilers and profilers about a GPU candidate's kernels; none for other ones."""
    return fact_rows({n: v for n, v in evaluation.facts.items() if n.startswith(("aot.", "gpu."))})


def fact_rows(facts: dict[str, FactValue]) -> list[tuple[str, str]]:
    """Return known facts with their units, as text."""
    rows = []
    for name, value in facts.items():
        if value is None:
            continue
        unit = METRICS[name].unit if name in METRICS else ""
        rows.append((name, f"{fact(value)} {unit}".strip()))
    return rows


def allowed_words(tolerance: TolerancePolicy) -> str:
    """Return how the allowed error follows from a tolerance, in a sentence (see checks/tolerance.py)."""
    if tolerance is TolerancePolicy.KERNELBENCH:
        return "an absolute and relative error of 1e-4 against the float32 reference"
    floor = {
        TolerancePolicy.STRICT: "16 units in the last place, plus 4 for each doubling of the length of the "
        "reduction",
        TolerancePolicy.TF32: "twice the rounding of TF32",
        TolerancePolicy.BF16: "twice the rounding of bfloat16",
    }[tolerance]
    return f"{floor}, or 4 times the float32 reference's own error where that is larger"

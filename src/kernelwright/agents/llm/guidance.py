"""What prompts are grounded in: one function for each section a window may show.

A function returns titled texts; an empty text is left out of the prompt. Where the recipe works on timings
alone, no section tells anything measured but latencies per workload.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from kernelwright.agents.llm import formatting as showing
from kernelwright.agents.llm.hardware import hardware_lines
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.proposals import without_repairs
from kernelwright.agents.llm.run_table import NOT_THE_MODEL, author_of, kernels_table, run_table
from kernelwright.agents.llm.tools import READ_SKILL
from kernelwright.agents.llm.window import PromptWindow, Section, Slot
from kernelwright.agents.roles import Analysis, Node
from kernelwright.core.evidence import METRICS
from kernelwright.core.roofline import Floor
from kernelwright.core.skill import RankedSkill
from kernelwright.memory.attempts import Idea
from kernelwright.skills.stats import SkillStats
from kernelwright.targets.registry import all_targets, target_of
from kernelwright.tasks.aten import numel
from kernelwright.tasks.functions import function_of

MAX_RANKED = 5
"""Skills listed with their reasons; our choice."""
MAX_GUIDANCE = 3
"""Skills whose full text is shown; our choice."""
MAX_TUNED, MAX_RESPONSES = 3, 6
"""Kernels, and parameters of each, of which tuning is told; our choice."""
TUNED = (
    "Cheap timings, which the verdict does not rest on. By value: the time of the fastest point that has it, "
    "over the time of the defaults [95 % interval]."
)
MAX_ARCHIVED = 5
"""Archived plans shown; our choice."""
LOG_LINES = 150
"""Lines of a failing kernel's log, counted from its end. Source: KernelSkill's published code."""

LIVE = (
    "A live module without a file of its own. What it computes is this graph; the base shows how its "
    "parameters are declared."
)
CLASSES = "Its classes, as far as their source could be read, without torch's own; the graph decides."
_PATTERN = re.compile(r"^```(?P<languages>[\w,]+)\n.*?^```[ \t]*\n?", re.M | re.S)
_BARE_HEADING = re.compile(r"^#{2,} [^\n]*\n\s*(?=^#{2,} |\Z)", re.M)
_FENCED = re.compile(r"^```.*?^```[ \t]*\n?", re.M | re.S)

IN_FLOOR = ("machine.", "task.bound_by", "task.floor_ms", "task.flops", "task.intensity", "task.min_bytes")
COUNTS = ("graph.n_", "counters.available")
"""Facts that say nothing where they are zero."""

Texts = Sequence[tuple[str, str]]
EVIDENCE = (
    "floor", "diagnosis", "evidence", "timings", "tuned", "plans", "ranked", "tried", "findings", "archive",
    "menu",
)  # fmt: skip
"""Sections whose numbers a plan may quote."""


def sections(window: PromptWindow, told: PromptInput) -> tuple[Section, ...]:
    """Return the window's sections with something to say, in its order."""
    names = {slot.section for slot in window.slots}
    is_graph = "reference" in names and told.problem.task.artifact is not None  # it lists the operators
    slots = [slot for slot in window.slots if not (is_graph and slot.section == "operators")]
    return tuple(section for slot in slots for section in _of(slot, told))


def evidence_text(told: PromptInput) -> str:
    """Return everything a plan may quote numbers from."""
    return "\n".join(text for name in EVIDENCE for _, text in SECTIONS[name](told))


def _of(slot: Slot, told: PromptInput) -> list[Section]:
    return [
        Section(title, text, slot.priority, slot.is_required, slot.keeps_tail, slot.keeps_some)
        for title, text in SECTIONS[slot.section](told)
        if text.strip()
    ]


# -- the task --------------------------------------------------------------------------------------


def _contract(told: PromptInput) -> Texts:
    return [("What must hold", showing.contract(told.problem))]


def _reference(told: PromptInput) -> Texts:
    task = told.problem.task
    if task.artifact is not None:
        classes = f"\n\n{CLASSES}\n{showing.source_block(task.class_source)}" if task.class_source else ""
        return [("The reference", f"{LIVE}\n\n{_operators(told)[0][1]}{classes}")]
    return [("The reference", showing.source_block(told.problem.task.source))]


def _operators(told: PromptInput) -> Texts:
    captured = told.problem.captured.get(told.problem.main_workload)
    return [("Operators of the captured graph", showing.operators(captured) if captured else "")]


# -- what was measured -----------------------------------------------------------------------------


def _floor(told: PromptInput) -> Texts:
    problem, peaks = told.problem, told.problem.peaks
    device = target_of(problem.target).device
    known = [] if device.is_apart else hardware_lines(problem.machine, peaks)
    if told.situation.timings_only:
        name = f"- {device.label}: {peaks.device}, {peaks.n_threads} {device.threads}."
        return [("The machine", "\n".join([name, *known]))]
    lines = [
        f"- {name}: {_fastest(floor)} {showing.number(floor.ms)} ms; bound by {floor.bound_by}: "
        f"{floor.work.flops} operations, {floor.work.min_bytes} bytes, "
        f"{showing.number(floor.work.intensity)} operations per byte{_evaluations(floor)}."
        for name, floor in problem.floors.items()
    ]
    if device.is_apart and not problem.floors:  # its peaks are not known
        return []
    machine = (
        f"- {device.label}: {peaks.device}, {peaks.n_threads} {device.threads}; "
        f"{showing.number(peaks.bandwidth_gbps)} GB/s from memory, "
        f"{showing.number(peaks.cache_bandwidth_gbps)} GB/s within {peaks.cache_bytes} bytes of "
        f"cache, {showing.number(peaks.fma_gflops)} {device.arithmetic}."
    )
    functions = [] if device.is_apart else _functions(told)
    return [("Roofline floor, and the machine", "\n".join([*lines, machine, *known, *functions]))]


def _functions(told: PromptInput) -> list[str]:
    """Say what the functions of the graph cost as it is written, where the floor does not count them."""
    problem = told.problem
    captured = problem.captured.get(problem.main_workload)
    rates, floor = dict(problem.peaks.functions), problem.main_floor
    if captured is None or floor is None or not rates:
        return []
    counts: Counter[str] = Counter()
    for node in captured.graph.nodes:
        if (name := function_of(node)) in rates:
            counts[str(name)] += numel(node)
    counted = dict(floor.work.functions)
    if not counts or all(counted.get(name) == count for name, count in counts.items()):
        return []
    ms = sum(count / rates[name] for name, count in counts.items()) / 1e6
    listed = ", ".join(f"{count} {name}" for name, count in counts.items())
    return [
        f"- {problem.main_workload} as it is written evaluates {listed}: {showing.number(ms)} ms at these "
        "rates. No bound, since algebra may remove some."
    ]


def _fastest(floor: Floor) -> str:
    """Say what the floor holds for: its arithmetic is that of products term by term."""
    if not floor.counts_products:
        return "no kernel can be faster than"
    return (
        "with products computed term by term (Winograd's, Strassen's or Fourier's algorithms need fewer "
        "operations) no kernel can be faster than"
    )


def _evaluations(floor: Floor) -> str:
    """Say which elementary functions the floor counts, and what they take; empty where it counts none."""
    if not floor.functions_ms:
        return ""
    counted = ", ".join(f"{count} {name}" for name, count in floor.work.functions)
    return f"; evaluations of functions: {counted}, which alone take {showing.number(floor.functions_ms)} ms"


def _diagnosis(told: PromptInput) -> Texts:
    analysis = _analysis(told)
    if analysis is None:
        return []
    found = analysis.diagnosis
    also = f"; also {', '.join(found.also)}" if found.also else ""
    lines = [
        f"Bottleneck: {found.bottleneck}{also}. Headroom: {found.headroom}. Structure: {found.structure}.",
        *(f"- {r.metric} = {showing.number(r.value)}{_unit(r.metric)}: {r.text}" for r in found.reasons),
    ]
    return [(f"Diagnosis of {_analysed(told)}, by code from measurements", "\n".join(lines))]


def _analysed(told: PromptInput) -> str:
    """Return whose analysis the situation holds, in words."""
    if told.base is None:
        return "the first parent"
    return "the base" if told.base.evaluation.is_verified else "the kernel that the failing one was made from"


def _evidence(told: PromptInput) -> Texts:
    analysis = _analysis(told)
    if analysis is None:
        return []
    shown = _shown_elsewhere(told)
    reasons = {reason.metric for reason in analysis.diagnosis.reasons}  # the diagnosis tells their figures
    known = sorted(
        (name, value)
        for name, value in analysis.evidence.facts.items()
        if value is not None
        and name not in reasons
        and not name.startswith(shown)
        and not (name.startswith(COUNTS) and not value)
    )
    lines = [f"- {name} = {showing.number(value)}{_unit(name)}" for name, value in known]
    return [(f"Evidence on {_analysed(told)}", "\n".join(lines))]


def _shown_elsewhere(told: PromptInput) -> tuple[str, ...]:
    """Return how the names of the facts begin that the floor's section tells."""
    return IN_FLOOR if told.problem.floors and _floor(told) else ()


def _timings(told: PromptInput) -> Texts:
    return [("All kernels of this run so far", "\n\n".join([*_eager(told), *run_table(told)]))]


def _tuned(told: PromptInput) -> Texts:
    """Show what was learned of open parameters, of the kernels that were closed last."""
    situation = told.situation
    base = (situation.base,) if situation.base is not None else ()
    kernels = {node.candidate.id: node for node in (*base, *situation.window, *situation.run) if node.closing}
    latest = [node for node in kernels.values() if node.closing][-MAX_TUNED:]
    texts = [closing_text(node) for node in latest]
    return [("What tuning found of the values left open", "\n".join([TUNED, *texts]) if texts else "")]


def closing_text(node: Node) -> str:
    """Return how a kernel's open parameters were closed, and what each did."""
    closing = node.closing
    if closing is None:
        return ""
    lines = [f"  - {response.line}" for response in closing.responses[:MAX_RESPONSES]]
    return "\n".join([f"- {node.candidate.id}: {closing.headline}", *lines])


def _choices(told: PromptInput) -> Texts:
    """Show the kernels that the role may choose among, and no others."""
    table = kernels_table(told.situation.window, timings_only=told.situation.timings_only)
    return [("Timings so far", "\n\n".join([*_eager(told), *table]))]


def _eager(told: PromptInput) -> list[str]:
    times = ", ".join(f"{name} {showing.number(ms)} ms" for name, ms in told.situation.eager_ms.items())
    return [f"The reference, as PyTorch runs it: {times}."] if times else []


def _plans(told: PromptInput) -> Texts:
    """Show every plan of the window with its verdict, fastest first, for the role that sees no source."""
    timings_only = told.situation.timings_only
    nodes = sorted(told.situation.window, key=lambda node: -(node.evaluation.geomean_speedup() or 0.0))
    texts = [
        f"{showing.verdict(node.evaluation, timings_only=timings_only)}:\n"
        f"{showing.plan_lines(without_repairs(node.candidate.plan)) or 'no move'}"
        for node in nodes
    ]
    return [("Plans so far, and how their kernels ended", "\n\n".join([*_eager(told), *texts]))]


# -- long-term memory ------------------------------------------------------------------------------


def _ranked(told: PromptInput) -> Texts:
    analysis = _analysis(told)
    if analysis is None or not told.situation.has_long_term:
        return []
    lines = [
        f"{n}. `{ranked.skill}` (score {showing.number(ranked.score)}): "
        f"{_summary(told, ranked)}{'; '.join(ranked.reasons)}. {ledger_line(told, ranked.skill)}"
        for n, ranked in enumerate(_applicable(told, analysis)[:MAX_RANKED], start=1)
    ]
    more = f"; `{READ_SKILL}` shows one in full" if told.reads_skills else ""
    return [(f"Skills that apply, ranked by code{more}", "\n".join(lines))]


def _applicable(told: PromptInput, analysis: Analysis) -> list[RankedSkill]:
    """Return the ranked skills that can be chosen: where only the menu can be, those with a move on it."""
    on_menu = {move.skill for move in told.menu.values()}
    return [ranked for ranked in analysis.ranked if not told.only_menu or ranked.skill in on_menu]


def ledger_line(told: PromptInput, skill: str) -> str:
    """Return what the ledger measured of a skill in the closest context it knows."""
    analysis = told.situation.analysis
    if analysis is None:
        return ""
    found = analysis.diagnosis
    stats: SkillStats = told.situation.ledger.stats(skill, found.structure, found.bottleneck)
    if stats.tries == 0:
        return "Ledger: never tried."
    mean = math.exp(stats.mean_log_speedup)
    return (
        f"Ledger on {stats.context}: {stats.tries} tries, {stats.wins} wins, "
        f"mean speedup {mean:.2f}x where verified."
    )


def _guidance(told: PromptInput) -> Texts:
    if not told.situation.has_long_term:
        return []
    named = [move.skill for move in told.plan.moves]
    if told.reads_skills and not named:
        return []
    analysis = _analysis(told)
    top = [ranked.skill for ranked in _applicable(told, analysis)] if analysis is not None else []
    wanted = [name for name in dict.fromkeys(named or top) if name in told.skills]
    language = told.problem.target.language
    bodies = {name: _in_language(told.skills[name].body, language) for name in wanted[:MAX_GUIDANCE]}
    return [(f"Skill `{name}`", _demoted(body)) for name, body in bodies.items()]


def _in_language(body: str, language: str) -> str:
    """Return a skill's text without worked patterns for kernels of other languages.

    A pattern in a language that is no target's, such as the host's Python, is for every target.
    """
    of_kernels = {target.name.language for target in all_targets()}

    def kept(pattern: re.Match[str]) -> str:
        named = set(pattern["languages"].split(","))
        return "" if named & of_kernels and language not in named else pattern[0]

    return _PATTERN.sub(kept, body)


def _demoted(body: str) -> str:
    """Return a skill's text with its headings below those of the sections."""
    return re.sub(r"^(#{2,} )", r"#\1", body, flags=re.M)


def _literature(told: PromptInput) -> Texts:
    """Show what the library of skills holds, where no measurement ranks it: knowledge, nothing measured."""
    if not told.situation.timings_only:
        return []
    lines = [f"- `{name}`: {told.skills[name].summary}" for name in literature(told)]
    return [("Techniques that the literature knows, not ranked for this task", "\n".join(lines))]


def literature(told: PromptInput) -> tuple[str, ...]:
    """Return the names of the skills for the target; none where long-term memory is left out."""
    if not told.situation.has_long_term:
        return ()
    target = str(told.problem.target)
    return tuple(name for name, skill in sorted(told.skills.items()) if target in skill.targets)


def _guidance_in_words(told: PromptInput) -> Texts:
    """The same without any code, for the role that must not see any, nor the headings of nothing but code."""
    return [(title, _BARE_HEADING.sub("", _FENCED.sub("", text))) for title, text in _guidance(told)]


def _findings(told: PromptInput) -> Texts:
    admitted = [finding for finding in told.situation.findings if finding.state == "admitted"]
    return [("Findings of earlier runs", "\n".join(f"- {finding.text}" for finding in admitted))]


def _documents(told: PromptInput) -> Texts:
    texts = [f"[{passage.source}]\n{_demoted(passage.text)}" for passage in told.situation.passages]
    title = "From documents that the user gave, claims to be tried; name the source where you follow one"
    return [(title, "\n\n".join(texts))]


def _archive(told: PromptInput) -> Texts:
    if told.situation.timings_only:
        return []
    texts = [
        f"Task {kept.task_name}, {kept.speedup:.2f}x over eager:\n{showing.plan_lines(kept.plan)}"
        for kept in told.situation.archive[:MAX_ARCHIVED]
    ]
    return [("Plans that won on tasks like this one", "\n".join(texts))]


# -- short-term memory -----------------------------------------------------------------------------


def _tried(told: PromptInput) -> Texts:
    if told.base is None:
        return []
    own = _attempts_on(told, told.base.candidate.id)
    earlier = [line for ancestor in _ancestors(told) for line in _attempts_on(told, ancestor)]
    return [
        ("Tried on this base, and how it ended", "\n".join(own)),
        ("Tried on the kernels that the base was made from", "\n".join(earlier)),
    ]


def _attempts_on(told: PromptInput, candidate: str) -> list[str]:
    """Return what was tried on a kernel, without the moves that the base has."""
    assert told.base is not None
    kept = {move.key for move in told.base.candidate.plan.moves}
    attempts = told.situation.memory.tried(candidate)
    timings_only = told.situation.timings_only
    return [f"- {_attempt(a, timings_only=timings_only)}" for a in attempts if a.move.key not in kept]


def _ancestors(told: PromptInput) -> list[str]:
    """Return the kernels that the base was made from, the nearest first."""
    assert told.base is not None
    parents = {node.candidate.id: node.candidate.parents for node in told.situation.run}
    found: dict[str, None] = {}
    waiting = list(told.base.candidate.parents)
    while waiting:
        candidate = waiting.pop(0)
        if candidate not in found:
            found[candidate] = None
            waiting += parents.get(candidate, ())
    return list(found)


def _attempt(attempt: Idea, *, timings_only: bool) -> str:
    what = showing.move_line(attempt.move)
    if not timings_only:
        return f"{what} => {attempt.ended}"
    ended = attempt.last.status if attempt.last else "not carried out"
    timed = f", {1 / attempt.speedup:.2f} times the base's latency" if attempt.speedup else ""
    return f"{what} => {ended}{timed}"


def _chain(told: PromptInput) -> Texts:
    """Show the idea that a failing kernel carries out, and its repairs so far."""
    if told.base is None:
        return []
    idea = told.situation.memory.idea_of(told.base.candidate.id)
    if idea is None:
        return []
    is_told, own = not told.situation.timings_only, told.base.candidate.id  # its own detail is told below
    links = [
        f"- {k.status}{f' ({k.detail})' if k.detail and is_told and k.candidate != own else ''}"
        for k in idea.links
    ]
    moves = told.base.candidate.plan.moves
    keys = [move.key for move in moves]
    later = moves[keys.index(idea.move.key) + 1 :] if idea.move.key in keys else ()
    repairs = [f"- {showing.move_line(move)}" for move in later]
    made = "\nRepairs made so far:\n" + "\n".join(repairs) if repairs else ""
    text = f"Idea: {showing.move_line(idea.move)}\nVerdicts so far, oldest first:\n" + "\n".join(links) + made
    return [("Repair chain", text)]


# -- kernels ---------------------------------------------------------------------------------------


def _base(told: PromptInput) -> Texts:
    if told.base is None:
        return []
    title = f"The base, {told.base.candidate.id}"
    evaluation = told.base.evaluation
    is_failing = not evaluation.is_verified  # how it fails is a section of its own
    timings_only = told.situation.timings_only
    outcome = str(evaluation.status) if is_failing else showing.verdict(evaluation, timings_only=timings_only)
    if errors := "" if is_failing or timings_only else showing.errors_used(evaluation):
        outcome = f"{outcome}\n{errors}"
    if told.anchored is not None:
        return [(f"{title}, with the spans to change marked", _with(outcome, told.anchored))]
    return [(title, _with(outcome, told.base.candidate.source))]


def _source(told: PromptInput) -> Texts:
    return [("The source", showing.source_block(told.source) if told.source else "")]


def _others(told: PromptInput) -> Texts:
    timings_only = told.situation.timings_only
    return [
        (_node_title(node), _with(_node_outcome(node, timings_only), node.candidate.source))
        for node in told.situation.window
    ]


def _node_title(node: Node) -> str:
    relation = "the fastest" if node.relation == "leader" else node.relation
    author = author_of(node.candidate)
    written = f", written by {author}" if author in NOT_THE_MODEL else ""
    return f"Another kernel of this run ({relation}), {node.candidate.id}{written}"


def _node_outcome(node: Node, timings_only: bool) -> str:
    outcome = showing.verdict(node.evaluation, timings_only=timings_only)
    last = node.candidate.plan.moves[-1:]
    return f"{outcome}\nLast change: {showing.move_line(last[0])}" if last else outcome


def _with(outcome: str, source: str) -> str:
    return f"Verdict: {outcome}\n{showing.source_block(source)}"


def _failure(told: PromptInput) -> Texts:
    if told.base is None or told.base.evaluation.is_verified:
        return []
    evaluation = told.base.evaluation
    lines = [f"Status: {evaluation.status}, at stage {evaluation.stage}."]
    if not told.situation.timings_only:
        lines += [evaluation.detail] if evaluation.detail else []
        lines += [
            f"- {e.workload}, inputs {e.family}, {e.output}: error {showing.number(e.error)}, "
            f"reference's own {showing.number(e.reference_error)}, allowed {showing.number(e.allowed)}"
            for e in evaluation.errors
            if e.error > e.allowed
        ]
        log = "\n".join(evaluation.log.splitlines()[-LOG_LINES:])
        lines += [f"Log:\n{log}"] if log.strip() else []
    return [("How it fails", "\n".join(lines))]


# -- what the role adds ----------------------------------------------------------------------------


def _earlier(told: PromptInput) -> Texts:
    return [
        (f"Kernel {n}, written already and not yet judged", showing.source_block(source))
        for n, source in enumerate(told.earlier, start=1)
    ]


def _plan(told: PromptInput) -> Texts:
    return [("The plan", showing.plan_lines(told.plan))]


def _steps(told: PromptInput) -> Texts:
    return [("The plan, step by step", showing.plan_steps(told.plan))]


def _menu(told: PromptInput) -> Texts:
    lines = [f"- {label}: {showing.move_line(move)}" for label, move in told.menu.items()]
    return [("Moves that may be taken as they are, by label", "\n".join(lines))]


def _cause(told: PromptInput) -> Texts:
    return [("Root cause and fix, as diagnosed", told.cause)]


def _refused(told: PromptInput) -> Texts:
    return [("Your last answer could not be used", told.refused)]


SECTIONS: Mapping[str, Callable[[PromptInput], Texts]] = {
    "contract": _contract,
    "reference": _reference,
    "operators": _operators,
    "floor": _floor,
    "diagnosis": _diagnosis,
    "evidence": _evidence,
    "timings": _timings,
    "tuned": _tuned,
    "choices": _choices,
    "plans": _plans,
    "ranked": _ranked,
    "guidance": _guidance,
    "literature": _literature,
    "guidance_in_words": _guidance_in_words,
    "findings": _findings,
    "documents": _documents,
    "archive": _archive,
    "tried": _tried,
    "chain": _chain,
    "base": _base,
    "source": _source,
    "others": _others,
    "failure": _failure,
    "earlier": _earlier,
    "plan": _plan,
    "steps": _steps,
    "menu": _menu,
    "cause": _cause,
    "refused": _refused,
}
"""Name of a section -> what it says."""


def _analysis(told: PromptInput) -> Analysis | None:
    return None if told.situation.timings_only else told.situation.analysis


def _summary(told: PromptInput, ranked: RankedSkill) -> str:
    skill = told.skills.get(ranked.skill)
    return f"{skill.summary} " if skill is not None else ""


def _unit(metric: str) -> str:
    unit = METRICS[metric].unit if metric in METRICS else ""
    unit = "" if unit in ("0..1", "ratio") else unit
    return f" {unit}" if unit else ""

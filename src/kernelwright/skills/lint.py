"""Finds skills that can never fire, speak of unknown facts, or name an edit that does not exist.

Source of the need: KernelMem's published rule file has a case that can never fire because of a misspelt
predicate, and a table that matches nothing for most profiles (measured on its revision 8b57ccc).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from pydantic import Field

from kernelwright.core.evidence import METRICS, Bottleneck, FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.core.plan import ParamValue
from kernelwright.core.skill import Predicate, Skill
from kernelwright.skills.predicate import show_predicate, value_matches

STRUCTURES = ("pointwise", "reduction", "scan", "window", "anchor", "anchor_chain", "mixed")
"""Values of ``graph.structure``."""
TEXT_VALUES: dict[str, tuple[str, ...]] = {
    "graph.structure": STRUCTURES,
    "task.bound_by": ("memory", "compute"),
    "task.dtype": ("float64", "float32", "bfloat16", "float16", "float8"),
    "task.tolerance": ("strict", "tf32", "bf16", "kernelbench"),
    "aot.occupancy_limit": ("warps", "blocks", "registers", "shared", "launch"),
    "gpu.architecture": ("sm_80", "sm_89", "sm_90", "sm_100", "gfx942", "gfx950"),
}
"""Text metrics with a closed set of values."""
SECTIONS = ("When", "How", "Worked pattern", "Pitfalls")
"""Headings that a body must have."""
LOWERING_KINDS = ("rewrite", "fusion", "schedule")

_OPERATORS = {
    "number": ("==", "!=", "<", "<=", ">", ">=", "in", "known"),
    "bool": ("==", "!=", "known"),
    "text": ("==", "!=", "in", "known"),
}


class SkillTarget(Frozen):
    """What skills may do and show for one target."""

    lowerings: frozenset[str] = frozenset()
    """Every edit that exists there, as ``kind:name``, e.g. ``schedule:unroll``."""
    shows_host_side: bool = False
    """The host's side may be shown in Python."""
    kinds: frozenset[str] = frozenset()
    """Every kind of place that guidance may act on, see ``Skill.acts_on``."""
    params: dict[str, dict[str, tuple[ParamValue, ...]]] = Field(default_factory=dict)
    """Lowering -> its parameter, with the values that search takes, in its order; none: not told."""


class SkillProblem(Frozen):
    """One thing that is wrong with the library."""

    skill: str
    """The skill, or ``library`` for what concerns all of them."""
    text: str


def lint(skills: Mapping[str, Skill], targets: Mapping[str, SkillTarget]) -> tuple[SkillProblem, ...]:
    """Return everything wrong with the skills, in order of skill; empty: clean.

    Args:
        skills: skills by name.
        targets: what there is for each target. A skill's lowering must exist for one of its own.
    """
    found = [SkillProblem(skill="library", text=text) for text in _library_problems(skills)]
    for skill in skills.values():
        found += [SkillProblem(skill=skill.name, text=text) for text in _skill_problems(skill, targets)]
    return tuple(found)


def _library_problems(skills: Mapping[str, Skill]) -> Iterator[str]:
    counts = Counter(skill.name for skill in skills.values())
    yield from (f"two skills are named {name!r}" for name, n in counts.items() if n > 1)
    for target in sorted({target for skill in skills.values() for target in skill.targets}):
        for bottleneck in Bottleneck:
            if bottleneck is not Bottleneck.AT_FLOOR and not _has_fallback(skills, target, bottleneck):
                yield f"no unconditional skill for {bottleneck} on {target}: the gate could return nothing"


def _has_fallback(skills: Mapping[str, Skill], target: str, bottleneck: Bottleneck) -> bool:
    return any(
        target in skill.targets
        and bottleneck in skill.bottlenecks
        and not (skill.requires or skill.forbids or skill.structures)
        for skill in skills.values()
    )


def _skill_problems(skill: Skill, targets: Mapping[str, SkillTarget]) -> Iterator[str]:
    for predicate in (*skill.requires, *skill.forbids, *(signal.when for signal in skill.signals)):
        yield from _predicate_problems(predicate)
    yield from _reach_problems(skill, targets)
    yield from _effect_problems(skill)
    yield from _lowering_problems(skill, targets)
    yield from _text_problems(skill, targets)


def _predicate_problems(predicate: Predicate) -> Iterator[str]:
    spec, shown = METRICS.get(predicate.metric), show_predicate(predicate)
    if spec is None:
        yield f"{shown!r}: unknown metric {predicate.metric!r}"
        return
    if predicate.op not in _OPERATORS[spec.kind]:
        yield f"{shown!r}: operator {predicate.op!r} does not fit a {spec.kind}"
        return
    if predicate.op == "known":
        return
    if (predicate.op == "in") != isinstance(predicate.value, tuple):
        yield f"{shown!r}: 'in' takes a list, every other operator a single value"
        return
    for value in predicate.value if isinstance(predicate.value, tuple) else (predicate.value,):
        if not _fits_kind(value, spec.kind):
            yield f"{shown!r}: {value!r} is not a {spec.kind}"
        elif value not in TEXT_VALUES.get(predicate.metric, (value,)):
            yield f"{shown!r}: {predicate.metric} is never {value!r}"


def _fits_kind(value: FactValue, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "bool"
    return isinstance(value, str) if kind == "text" else kind == "number" and isinstance(value, int | float)


def _reach_problems(skill: Skill, targets: Mapping[str, SkillTarget]) -> Iterator[str]:
    yield from (f"unknown target {target!r}" for target in skill.targets if target not in targets)
    yield from (f"unknown structure {name!r}" for name in skill.structures if name not in STRUCTURES)
    if not skill.targets or not skill.bottlenecks:
        yield "unreachable: it names no target or no bottleneck"
    if Bottleneck.AT_FLOOR in skill.bottlenecks:
        yield "at_floor is where the search ends; no skill applies there"
    required = list(skill.requires)
    if skill.structures:
        required.append(Predicate(metric="graph.structure", op="in", value=skill.structures))
    for metric in sorted({predicate.metric for predicate in required} & set(METRICS)):
        wanted = [predicate for predicate in required if predicate.metric == metric]
        banned = [predicate for predicate in skill.forbids if predicate.metric == metric]
        if not any(_passes(value, wanted, banned) for value in _witnesses(metric, wanted + banned)):
            yield f"unreachable: no value of {metric} satisfies requires and forbids together"


def _passes(value: FactValue, wanted: list[Predicate], banned: list[Predicate]) -> bool:
    return all(value_matches(p, value) for p in wanted) and not any(value_matches(p, value) for p in banned)


def _witnesses(metric: str, predicates: list[Predicate]) -> list[FactValue]:
    """Return values such that, if none of them satisfies the predicates, no possible value does."""
    spec = METRICS[metric]
    if spec.kind == "bool":
        return [True, False]
    named = [v for p in predicates for v in (p.value if isinstance(p.value, tuple) else (p.value,))]
    if spec.kind == "text":
        return list(TEXT_VALUES.get(metric, ("another value", *(v for v in named if isinstance(v, str)))))
    lowest, highest = 0.0, 1.0 if spec.unit == "0..1" else 1e300
    limits = sorted({lowest, highest, *(float(v) for v in named if isinstance(v, int | float))})
    middles = [a + (b - a) / 2 for a, b in pairwise(limits)]
    return [value for value in (*limits, *middles) if lowest <= value <= highest]


def _effect_problems(skill: Skill) -> Iterator[str]:
    for expected in skill.expects:
        spec = METRICS.get(expected.metric)
        if spec is None or spec.kind != "number":
            yield f"expects {expected.metric!r}, which is not a number among the metrics"
        if expected.factor <= 1.0:
            yield f"expects {expected.metric!r} by a factor of {expected.factor:g}; sizes are above 1"
    if all(expected.metric != "run.latency_ms" for expected in skill.expects):
        yield "expects nothing of run.latency_ms, so its rank has no prior"
    yield from (f"signal {show_predicate(s.when)!r} weighs nothing" for s in skill.signals if s.weight <= 0)


def _lowering_problems(skill: Skill, targets: Mapping[str, SkillTarget]) -> Iterator[str]:
    yield from (f"parameter {name!r} has no values" for name, values in skill.params.items() if not values)
    yield from _place_problems(skill, targets)
    if skill.lowering is None:
        return
    yield from _param_problems(skill, targets)
    kind, _, name = skill.lowering.partition(":")
    if kind not in LOWERING_KINDS or not name:
        yield f"lowering {skill.lowering!r} is not one of {', '.join(LOWERING_KINDS)} and a name"
    elif not any(
        skill.lowering in targets[target].lowerings for target in skill.targets if target in targets
    ):
        yield f"lowering {skill.lowering!r} does not exist"


def _place_problems(skill: Skill, targets: Mapping[str, SkillTarget]) -> Iterator[str]:
    """Where nothing carries a skill out, its file says what it acts on."""
    named = [targets[target] for target in skill.targets if target in targets]
    if skill.acts_on is not None and not any(skill.acts_on in target.kinds for target in named):
        yield f"acts on {skill.acts_on!r}, which is no kind of place"
    if skill.acts_on is None and any(skill.lowering not in target.lowerings for target in named):
        yield "nothing carries it out on some target, and it names no place that it acts on"


def _param_problems(skill: Skill, targets: Mapping[str, SkillTarget]) -> Iterator[str]:
    """A skill shows the values that search takes, all of them and in its order; one that narrows, some."""
    for target in skill.targets:
        known = targets[target].params if target in targets else {}
        wanted = known.get(skill.lowering or "")
        fits = skill.params == wanted or (
            skill.narrows is not None and _are_among(skill.params, wanted or {})
        )
        if wanted is not None and not fits:
            yield f"params are {_shown(skill.params)}, but search on {target} takes {_shown(wanted)}"


def _are_among(
    params: Mapping[str, tuple[ParamValue, ...]], wanted: Mapping[str, tuple[ParamValue, ...]]
) -> bool:
    return params.keys() == wanted.keys() and all(set(params[name]) <= set(wanted[name]) for name in wanted)


def _shown(params: Mapping[str, tuple[ParamValue, ...]]) -> str:
    texts = (f"{name}: [{', '.join(map(str, values))}]" for name, values in params.items())
    return ", ".join(texts) or "none"


def _text_problems(skill: Skill, targets: Mapping[str, SkillTarget]) -> Iterator[str]:
    if not skill.summary.strip():
        yield "no summary"
    if not any(source.strip() for source in skill.sources):
        yield "no sources"
    headings = re.findall(r"^## (.+)$", skill.body, re.MULTILINE)
    yield from (f"body has no section {name!r}" for name in SECTIONS if name not in headings)
    with_host_side = {name.partition("/")[2] for name, target in targets.items() if target.shows_host_side}
    for language in sorted({target.partition("/")[2] for target in skill.targets}):
        if not _has_pattern(skill, language, is_host_side=language in with_host_side):
            yield f"body has no worked pattern for {language}"


def _has_pattern(skill: Skill, language: str, *, is_host_side: bool) -> bool:
    """A graph rewrite is shown in Python for any target, and so is the host side of a GPU candidate."""
    is_rewrite = (skill.lowering or "").startswith("rewrite:")
    return bool(patterns(skill, language) or ((is_rewrite or is_host_side) and patterns(skill, "python")))


def patterns(skill: Skill, language: str) -> tuple[str, ...]:
    """Return the worked patterns in a language; the fence of a block may name several, as in ``cuda,hip``."""
    blocks = re.findall(r"^```([\w,]+)\n(.+?)^```$", skill.body, re.M | re.S)
    return tuple(code for languages, code in blocks if language in languages.split(","))

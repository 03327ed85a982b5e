"""All mutants, by name; and which of them are no bugs, with the reason."""

import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kernelwright.core.task import Task
from lab.mutants.bases import BASES, Base
from lab.mutants.edits import Operator
from lab.mutants.equivalent import EQUIVALENT
from lab.mutants.kernel_operators import BETWEEN_THREADS, BODY, BY_LUCK, PRELUDE
from lab.mutants.meaning_operators import MEANING, as_candidate
from lab.mutants.module_operators import MODULE

FEW = 1
"""Mutants of one operator on one base, where nothing else is said: the first place where it applies."""
SEVERAL = 2
SEVERAL_OF = {
    "tail_dropped", "tail_short", "wrong_stride", "broadcast_lost", "operation_dropped", "operation_mistaken",
    "term_dropped", "wrong_axis", "input_made_ones", "other_sign",
}  # fmt: skip
"""Operators with ``SEVERAL`` places on one base, the first and the last."""
ONLY_ON = {
    "subnormals_flushed": {"1", "7", "12", "27"},
    "nan_made_zero": {"1", "8", "21", "27"},
    "contiguous_assumed": {"1", "7", "27"},
    "contiguous_memory_read": {"1", "7", "27"},
    "zeroed_result": {"1", "7", "10", "17", "27"},
    "float_total": {"7", "12", "17"},
}
"""Operators that say the same everywhere, and the suite's numbers on which they are tried."""
NOT_ON = {
    "sum_in_half": {"18"}, "shared_accumulator": {"17"}, "input_in_tf32": {"17"}, "input_in_bf16": {"17"},
    "sum_not_cleared": {"23"},
}  # fmt: skip
"""Operators, and the suite's numbers on which a verdict would say nothing either way. 18 returns a mean over
rows, in which rounded sums average out to about the tolerance; rounded inputs do so in 17, a norm over all.
There gcc keeps the sums in registers, shared or not. In 23 it takes a sum's undefined start as 0."""


@dataclass(frozen=True)
class Mutant:
    """One changed kernel for one task."""

    task: Task
    layer: str
    """``kernel`` and ``prelude`` (generated C++), ``module`` (the Python around it), ``meaning``."""
    operator: str
    place: int
    """Which of the operator's places, from 0."""
    source: str
    original: str
    """The correct kernel that it was made of."""

    @property
    def name(self) -> str:
        """``TASK/layer/operator/place``."""
        return f"{self.task.name}/{self.layer}/{self.operator}/{self.place}"

    @property
    def may_be_lucky(self) -> bool:
        """True when it is right now and then: threads that do not meet, memory that holds zeros."""
        return self.operator in BY_LUCK

    @property
    def equivalent(self) -> str | None:
        """Why it is no bug; None when it is one."""
        for pattern, reason in EQUIVALENT.items():
            if fnmatch.fnmatch(self.name, pattern):
                return reason
        return None


def catalogue(only: str = "*") -> tuple[Mutant, ...]:
    """Return the mutants whose names match, base by base."""
    task = only.partition("/")[0] if "/" in only else "*"
    bases = [base for base in BASES if fnmatch.fnmatch(base.task.name, task)]
    return tuple(m for base in bases for m in mutants_of(base) if fnmatch.fnmatch(m.name, only))


def mutants_of(base: Base) -> tuple[Mutant, ...]:
    """Return the mutants of one base; no two have the same source."""
    found: dict[str, Mutant] = {}
    for mutant in _all_of(base):
        found.setdefault(mutant.source, mutant)
    return tuple(found.values())


def _all_of(base: Base) -> Iterator[Mutant]:
    task = base.task
    if base.has_kernel:
        kernel, long = base.kernel(), base.for_threads
        yield from _of_cpp(long.task, kernel if long is base else long.kernel(), "kernel", BETWEEN_THREADS)
        yield from _of_cpp(task, kernel, "kernel", BODY)
        yield from _of_cpp(task, kernel, "prelude", PRELUDE)
        if _cpp_parts(kernel)[1]:
            yield from _apply(Mutant(task, "module", "", 0, "", kernel), MODULE, kernel)
    yield from _apply(Mutant(task, "meaning", "", 0, "", as_candidate(task.source)), MEANING, task.source)


def _of_cpp(task: Task, kernel: str, layer: str, operators: Mapping[str, Operator]) -> Iterator[Mutant]:
    before, text, after = _cpp_parts(kernel)
    if text:
        yield from _apply(Mutant(task, layer, "", 0, "", kernel), operators, text, before, after)


def _cpp_parts(candidate: str) -> tuple[str, str, str]:
    """Split a candidate at its C++, which is empty where it has none."""
    match = re.search(r"(?<=CPP_SOURCE = r'''\n).*?(?=''')", candidate, re.S)
    if match is None:
        return candidate, "", ""
    return candidate[: match.start()], match[0], candidate[match.end() :]


def _apply(
    start: Mutant, operators: Mapping[str, Operator], text: str, before: str = "", after: str = ""
) -> Iterator[Mutant]:
    number = start.task.name.partition("_")[0]
    for name, operator in operators.items():
        if number not in ONLY_ON.get(name, {number}) or number in NOT_ON.get(name, ()):
            continue
        made = list(dict.fromkeys(operator(text)))
        for place in _spread(len(made), SEVERAL if name in SEVERAL_OF else FEW):
            yield replace(start, operator=name, place=place, source=before + made[place] + after)


def _spread(n: int, wanted: int) -> list[int]:
    """Return up to ``wanted`` indices below ``n``, from first to last."""
    if n <= wanted:
        return list(range(n))
    return [0] if wanted == 1 else [round(i * (n - 1) / (wanted - 1)) for i in range(wanted)]

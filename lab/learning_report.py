"""Does memory pay: evaluations that a run needs with and without what earlier runs have learned."""

import math
from collections.abc import Mapping, Sequence

from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.report.comparison import MIN_PAIRED
from kernelwright.report.estimates import Estimate, estimate
from kernelwright.report.markdown import table
from kernelwright.report.measures import percent, times
from kernelwright.report.played import Played

ENOUGH = 0.95
"""Share of the better run's best speedup that has to be reached."""
HEADER = ("task", "half", "best cold", "best warm", "to reach", "cold", "warm")


class LearningRow(Frozen):
    """One task played twice: with an empty memory, and with that of the other half."""

    task: str
    half: str
    """The half that the task belongs to; the warm run knew only the other one."""
    best_cold: float | None
    """Best verified speedup of the search; both runs share their measurements. None: nothing verified."""
    best_warm: float | None
    target: float | None
    """ENOUGH times the better of the two; None when neither found anything faster, so that there was
    nothing to reach."""
    cold: int | None
    """Evaluations until the target was reached; None when it was not."""
    warm: int | None
    budget: int
    """Evaluations granted to each run."""

    @property
    def log_ratio(self) -> float | None:
        """Logarithm of cold over warm; above 0 the memory saved evaluations. None without a target.

        A run that did not reach the target counts as one evaluation more than it was granted: the least it
        can have needed, so an advantage is never overstated.
        """
        if self.target is None:
            return None
        return math.log((self.cold or self.budget + 1) / (self.warm or self.budget + 1))


class Learned(Frozen):
    """Rows summed up."""

    name: str
    n_tasks: int
    n_with_target: int
    n_reached_cold: int
    n_reached_warm: int
    n_fewer: int
    """Tasks on which the warm run needed fewer evaluations."""
    n_more: int
    ratio: Estimate | None
    """Cold over warm evaluations, geometric mean over the tasks with a target."""

    @property
    def verdict(self) -> str:
        """What the interval allows to say."""
        if self.ratio is None or self.n_with_target < MIN_PAIRED:
            return "too few tasks"
        if self.ratio.low > 1.0:
            return "memory saves evaluations"
        return "memory costs evaluations" if self.ratio.high < 1.0 else "no significant difference"


def learning_row(half: str, cold: Played, warm: Played, budget: int) -> LearningRow:
    """Compare the two runs of one task."""
    best = [run.best_so_far[-1] if run.best_so_far else None for run in (cold, warm)]
    highest = max((speedup for speedup in best if speedup is not None), default=0.0)
    target = ENOUGH * highest if highest > 1.0 else None
    needed = [None if target is None else _evaluations_to(run, target) for run in (cold, warm)]
    return LearningRow(
        task=cold.task,
        half=half,
        best_cold=best[0],
        best_warm=best[1],
        target=target,
        cold=needed[0],
        warm=needed[1],
        budget=budget,
    )


def _evaluations_to(played: Played, speedup: float) -> int | None:
    """Return after how many evaluations a run's best so far was first at least that; None if never."""
    reached = (i for i, best in enumerate(played.best_so_far, 1) if best is not None and best >= speedup)
    return next(reached, None)


def learned(name: str, rows: Sequence[LearningRow]) -> Learned:
    """Sum rows up; the interval comes from drawing tasks."""
    logs = [log for row in rows if (log := row.log_ratio) is not None]
    return Learned(
        name=name,
        n_tasks=len(rows),
        n_with_target=len(logs),
        n_reached_cold=sum(row.cold is not None for row in rows),
        n_reached_warm=sum(row.warm is not None for row in rows),
        n_fewer=sum(log > 0 for log in logs),
        n_more=sum(log < 0 for log in logs),
        ratio=estimate(logs),
    )


def learning_markdown(
    rows: Sequence[LearningRow],
    sums: Sequence[Learned],
    *,
    title: str,
    rule: str,
    date: str,
    command: str,
    environment: Mapping[str, FactValue],
    notes: Sequence[str] = (),
) -> str:
    """Return the document; ``rule`` says how the halves were made, ``notes`` what memory held."""
    facts = "; ".join(f"{name} {value}" for name, value in environment.items() if value is not None)
    parts = [
        f"# {title}",
        f"{date}. {facts}.",
        f"```\n{command}\n```",
        f"{rule} Each half is played once to fill a memory; then every task of the other half is played with "
        "an empty memory (cold) and with that one (warm), which never saw the task. Both share their "
        f"measurements. Counted are the evaluations until {percent(ENOUGH)} of the better run's best "
        "verified speedup is reached; a run that never gets there counts as one more than it was granted. "
        "Above 1x the memory saves evaluations; brackets are 95 % bootstrap intervals over tasks.",
        table(
            (
                "what",
                "tasks",
                "with a gain",
                "reached cold",
                "reached warm",
                "fewer",
                "more",
                "cold / warm",
                "",
            ),
            [_sum_cells(one) for one in sums],
        ),
        *(f"- {note}" for note in notes),
        "## Tasks",
        table(HEADER, [_row_cells(row) for row in rows]),
    ]
    return "\n\n".join(parts) + "\n"


def _sum_cells(one: Learned) -> tuple[str, ...]:
    counts = (one.n_tasks, one.n_with_target, one.n_reached_cold, one.n_reached_warm, one.n_fewer, one.n_more)
    return one.name, *map(str, counts), str(one.ratio or "not measured"), one.verdict


def _row_cells(row: LearningRow) -> tuple[str, ...]:
    speedups = (row.best_cold, row.best_warm, row.target)
    needed = ("" if row.target is None else str(n or f"> {row.budget}") for n in (row.cold, row.warm))
    return row.task, row.half, *("" if s is None else times(s) for s in speedups), *needed

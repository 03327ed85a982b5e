"""A comparison as Markdown: the conditions, who came out where, then every pair and every task."""

from collections.abc import Iterable, Mapping

from kernelwright.core.budget import Budget
from kernelwright.core.evidence import FactValue
from kernelwright.core.intervals import wilson
from kernelwright.report.comparison import MIN_PAIRED, Comparison, Conditions, Pair, Standing, TaskLine
from kernelwright.report.estimates import Estimate
from kernelwright.report.judged import DeviceFacts
from kernelwright.report.markdown import bullets, code, devices_part, facts_line, plain, table
from kernelwright.report.measures import duration, percent, times
from kernelwright.report.table import Table

NOT_MEASURED = "not measured"
NORMAL_975 = 1.96
STANDING_HEADER = (
    "recipe", "success", "faster", "fast_1", "fast_1.5", "fast_2", "geomean", "median", "area",
)  # fmt: skip
COST_HEADER = (
    "recipe", "runs", "evaluations a run", "model calls a run", "tokens a run", "USD in all", "time a run",
)  # fmt: skip
PAIR_HEADER = ("first", "second", "tasks", "first / second", "areas", "the first is")

MEMORY = {
    "cold": "Every run began with an empty memory (ledger, archive, findings), so that no recipe learned "
    "from another one's runs.",
    "warm": "Every run began with the memory that the store held when the comparison began, and learned "
    "nothing from the other runs of the comparison.",
}
MEASUREMENTS = {
    "fresh": "Every run measured its own candidates.",
    "reused": "A candidate that came up before on a task kept its first measurement, which was charged to "
    "the budget all the same; therefore runs have no seconds of their own.",
    "replayed": "Nothing was measured: every verdict was read from a recording, and charged to the budget "
    "all the same.",
}
UNITS = {
    "evaluations": "evaluations",
    "model_calls": "model calls",
    "tokens": "tokens",
    "usd": "USD",
    "seconds": "seconds",
}


def comparison_markdown(
    name: str,
    comparison: Comparison,
    conditions: Conditions,
    *,
    date: str,
    command: str,
    environment: Mapping[str, FactValue],
    devices: DeviceFacts | None = None,
    picture: str | None = None,
) -> str:
    """Return the whole document; the arguments are those of ``bench_markdown``."""
    parts = [
        f"# {plain(name)}",
        f"{date}. {facts_line(environment)}.",
        *devices_part(devices),
        code(command),
        conditions_text(conditions),
        counted(comparison),
        "## Standings",
        table(STANDING_HEADER, [standing_cells(standing) for standing in comparison.standings]),
        reading(comparison).replace("fast_p", "`fast_p`"),
    ]
    if picture is not None:
        parts.append(f"![Best so far against evaluations]({picture})")
    if comparison.pairs:
        parts += ["## Pairs", table(PAIR_HEADER, [pair_cells(p) for p in comparison.pairs]), pair_reading()]
    parts += ["## Costs", table(COST_HEADER, [cost_cells(standing) for standing in comparison.standings])]
    parts += ["## Tasks", table(*task_table(comparison)[:2])]
    failed = failed_notes(comparison)
    parts += [f"Failed:\n\n{bullets(failed)}"] if failed else []
    return "\n\n".join(parts) + "\n"


def conditions_text(conditions: Conditions) -> str:
    """Say in a few sentences what every run was given."""
    budget = f"Budget of every run: {budget_text(conditions.budget)}."
    return f"{budget} {MEMORY[conditions.memory]} {MEASUREMENTS[conditions.measurements]}"


def budget_text(budget: Budget) -> str:
    """Spell the amounts granted: ``16 evaluations, 40 model calls``."""
    granted = ((getattr(budget, field), unit) for field, unit in UNITS.items())
    return ", ".join(f"{amount:g} {unit}" for amount, unit in granted if amount is not None) or "unlimited"


def standing_cells(standing: Standing) -> tuple[str, ...]:
    """Return a standing's cells under STANDING_HEADER."""
    return (
        standing.name,
        *(
            _share(share, standing.n_tasks)
            for share in (standing.success, standing.faster, *standing.fast_p.values())
        ),
        _estimate(standing.geomean),
        _estimate(standing.median),
        _estimate(standing.area),
    )


def cost_cells(standing: Standing) -> tuple[str, ...]:
    """Return a standing's cells under COST_HEADER."""
    return (
        standing.name,
        str(standing.n_runs),
        _number(standing.evaluations),
        _number(standing.model_calls),
        _number(standing.tokens),
        NOT_MEASURED if standing.usd is None else f"{standing.usd:.4g}",
        NOT_MEASURED if standing.seconds is None else duration(standing.seconds),
    )


def pair_cells(pair: Pair) -> tuple[str, ...]:
    """Return a pair's cells under PAIR_HEADER."""
    final, area = _estimate(pair.final), _estimate(pair.area)
    return pair.first, pair.second, str(pair.n_tasks), final, area, pair.verdict


def task_table(comparison: Comparison) -> Table:
    """Return what each contestant delivered on each task."""
    names = [standing.name for standing in comparison.standings]
    rows = [_task_cells(line, names) for line in comparison.tasks]
    if len({line.device for line in comparison.tasks} - {""}) < 2:
        return Table(("task", *names), rows)
    cells = [(*row, line.device) for row, line in zip(rows, comparison.tasks, strict=True)]
    return Table(("task", *names, "device"), cells, numbers=names)


def failed_notes(comparison: Comparison) -> list[str]:
    """Return a line for each run that failed."""
    return [f"{f.name}, {f.task}, seed {f.seed}: {f.detail}" for f in comparison.failures]


def _task_cells(line: TaskLine, names: Iterable[str]) -> tuple[str, ...]:
    ratios = [line.speedups.get(name) for name in names]
    return line.task, *("failed" if ratio is None else times(ratio) for ratio in ratios)


def counted(comparison: Comparison) -> str:
    """Say how many pairs of task and seed the tables rest on."""
    n_tasks = len(comparison.tasks)
    text = f"{comparison.n_cells} pairs of task and seed, over {n_tasks} tasks, are ended by every recipe"
    left_out = f"; {comparison.n_open} that only some have ended are left out" if comparison.n_open else ""
    return f"{text}{left_out}."


def reading(comparison: Comparison) -> str:
    """Say how the standings are to be read."""
    return (
        "An unchanged module counts as a success at 1.00x. Geomean and median are of the delivered speedup "
        "over eager, measured again in fresh processes, where the run did not fail; fast_p is the share of "
        "all runs whose delivered speedup exceeds p with its whole interval. The area is the geometric mean "
        f"over the first {comparison.horizon} evaluations of the best verified speedup so far, at least 1: a "
        "recipe that is early has more of it. Seeds of a task are averaged first; brackets are 95 % "
        "intervals over tasks, by bootstrap, those of shares by Wilson's score."
    )


def pair_reading() -> str:
    """Say how the pairs are to be read."""
    return (
        "Ratios of the first to the second on the same tasks and seeds, geometric means over tasks. The "
        "verdict is that of the delivered speedups' interval: it excludes 1, or there is no significant "
        f"difference; below {MIN_PAIRED} tasks none is given. The intervals are not corrected for the number "
        "of pairs."
    )


def _share(value: float | None, n_tasks: int) -> str:
    if value is None:
        return NOT_MEASURED
    low, high = wilson(value * n_tasks, n_tasks, NORMAL_975)
    return f"{percent(value)} [{100 * low:.0f}, {100 * high:.0f}]"


def _estimate(value: Estimate | None) -> str:
    return NOT_MEASURED if value is None else str(value)


def _number(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:.4g}"

"""``kernelwright memory``: what finished runs taught."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from kernelwright.cli.options import AsJson, StoreOption
from kernelwright.cli.output import print_json, print_table, stdout
from kernelwright.cli.stores import open_for_reading, open_store
from kernelwright.core.learned import Finding
from kernelwright.report.table import Table

app = typer.Typer(help="What finished runs taught: show, findings, archive, learn.", no_args_is_help=True)
EMPTY = "nothing learned yet; every run that ends adds to it: kernelwright optimize FILE"


class FindingState(StrEnum):
    """How far a finding has come."""

    PROPOSED = "proposed"
    ADMITTED = "admitted"
    REJECTED = "rejected"


@app.command()
def show(store: StoreOption = None, as_json: AsJson = False) -> None:
    """Show what there is, and of every skill the expected beside the measured effect."""
    # lazy: keeps --help quick
    from kernelwright.memory.ledger import Ledger

    opened = open_for_reading(store)
    ledger = Ledger.of_tallies(opened.tallies(), histograms=opened.histograms())
    effects = ledger.effects()
    states = Counter(finding.state for finding in opened.iter_findings())
    counts = {
        "outcomes": len(ledger),
        "skills": len({effect.skill for effect in effects}),
        "tasks": opened.count_tasks(),
        "plans": opened.count_plans(),
        "findings": {state.value: states[state.value] for state in FindingState},
    }
    if as_json:
        print_json(counts | {"effects": effects})
        return
    if not effects and not counts["plans"] and not states:
        stdout().print(EMPTY)
        return
    found = ", ".join(f"{states[state.value]} {state}" for state in FindingState)
    tallies = ", ".join(f"{counts[name]} {name}" for name in ("outcomes", "skills", "tasks", "plans"))
    stdout().print(f"Ledger and archive: {tallies}\nFindings: {found}\n")
    rows = []
    for effect in effects:
        measured = "" if effect.median_speedup is None else f"{effect.median_speedup:.2f}x"
        numbers = (str(n) for n in (effect.tries, effect.verified, effect.wins))
        rows.append((effect.skill, effect.coder, effect.expected, *numbers, measured))
    _print(("skill", "by", "expected", "tries", "verified", "wins", "median"), rows)


@app.command()
def findings(
    state: Annotated[FindingState | None, typer.Option("--state", help="Only those in this state.")] = None,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """List findings with their state and how they were tested."""
    # lazy: keeps --help quick
    from kernelwright.memory.findings import describe

    found = [f for f in open_for_reading(store).iter_findings() if state is None or f.state == state]
    if as_json:
        print_json([_as_document(finding) for finding in found])
        return
    if not found:
        stdout().print("no findings; look for some with: kernelwright memory learn")
        return
    rows = [(finding.id, finding.state, finding.target, describe(finding)) for finding in found]
    _print(("finding", "state", "target", "what it says"), rows)


@app.command()
def archive(store: StoreOption = None, as_json: AsJson = False) -> None:
    """List archived plans: what won on which task."""
    # lazy: keeps --help quick
    from kernelwright.memory.archive import skills_in_order

    plans = [plan for _, plan in open_for_reading(store).iter_plans()]
    if as_json:
        print_json(plans)
        return
    if not plans:
        stdout().print("no archived plans; every run that finds something faster adds one")
        return
    rows = []
    for plan in plans:
        structure = str(plan.signature.get("graph.structure") or "")
        skills = " > ".join(skills_in_order(plan.plan))
        rows.append((plan.run_id, plan.task_name, plan.target, structure, f"{plan.speedup:.2f}x", skills))
    _print(("run", "task", "target", "structure", "speedup", "skills"), rows)


@app.command()
def learn(store: StoreOption = None, as_json: AsJson = False) -> None:
    """Propose findings from all finished runs and judge them on the tasks they were not taken from."""
    # lazy: keeps --help quick
    from kernelwright.memory.study import study

    opened = open_store(store)
    before = {finding.id: finding for finding in opened.iter_findings()}
    changed, n_findings = opened.learn(study, anew=True)
    n_outcomes, n_plans = opened.count_learned()
    if as_json:
        print_json({"findings": n_findings, "changed": [_as_document(finding) for finding in changed]})
        return
    looked_at = f"looked at {n_outcomes} outcomes and {n_plans} plans"
    if not changed:
        stdout().print(f"{looked_at}: nothing new, the findings ({n_findings}) stand as they were")
        return
    stdout().print(f"{looked_at}: new or judged anew, {len(changed)} of {n_findings} findings:")
    for finding in changed:
        was = before[finding.id].state if finding.id in before else "new"
        step = finding.state if was == finding.state else f"{was} -> {finding.state}"
        stdout().print(f"  {step}: {finding.text}", soft_wrap=True)


def _as_document(finding: Finding) -> dict[str, Any]:
    return {"id": finding.id, **finding.model_dump(mode="json")}


def _print(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print_table(Table(header, rows, is_text=True), whole=("skill", "finding", "run"))

"""``kernelwright memory``: what finished runs taught."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelwright.cli.options import AsJson, StoreOption
from kernelwright.cli.output import print_json, print_table, stdout
from kernelwright.cli.stores import open_for_reading, open_store
from kernelwright.core.learned import Finding
from kernelwright.report.files import write_text
from kernelwright.report.table import Table

if TYPE_CHECKING:
    from kernelwright.memory.proposals import TaskEvidence

app = typer.Typer(
    help="What finished runs taught: show, findings, skills, archive, learn.", no_args_is_help=True
)
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
    _print(("skill", "by", "expected", "tries", "verified", "wins", "median"), rows, ("by", "verified"))


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
    _print(("run", "task", "target", "structure", "speedup", "skills"), rows, ("target", "structure"))


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


@app.command()
def skills(
    state: Annotated[FindingState | None, typer.Option("--state", help="Only those in this state.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write the skill files into, by state.")
    ] = None,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """List the skills that the Librarian proposes, with the evidence for and since each proposal."""
    # lazy: loads torch
    from kernelwright.memory.proposals import skill_proposals
    from kernelwright.skills.load import load_skills
    from kernelwright.skills.write import skill_text
    from kernelwright.targets.for_skills import skill_targets

    opened = open_for_reading(store)
    outcomes = (outcome for _, outcome in opened.iter_outcomes())
    proposals = skill_proposals(opened.iter_findings(), outcomes, load_skills(), skill_targets())
    found = [proposal for proposal in proposals if state is None or proposal.state == state]
    if out is not None:
        for proposal in found:
            _write_once(out, proposal.state, f"{proposal.skill.name}.md", skill_text(proposal.skill))
    if as_json:
        print_json([{**p.model_dump(mode="json"), "file": skill_text(p.skill)} for p in found])
        return
    if not found:
        stdout().print("no proposed skills; look for some with: kernelwright memory learn")
        return
    rows = [(p.skill.name, p.state, _share(p.made_from), _share(p.since)) for p in found]
    _print(("skill", "state", "won", "won since"), rows)


def _write_once(folder: Path, state: str, name: str, text: str) -> None:
    """Write a skill file into the folder of its state, and take it out of those of other states."""
    write_text(folder / state / name, text)
    for other in set(FindingState) - {FindingState(state)}:
        (folder / other.value / name).unlink(missing_ok=True)


def _share(evidence: "TaskEvidence") -> str:
    low, high = evidence.share_won
    return f"{evidence.won} of {evidence.tasks} tasks [{low:.2f}, {high:.2f}]"


def _as_document(finding: Finding) -> dict[str, Any]:
    return {"id": finding.id, **finding.model_dump(mode="json")}


def _print(header: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str] = ()) -> None:
    print_table(Table(header, rows, is_text=True, spare=spare), whole=("skill", "finding", "run"))

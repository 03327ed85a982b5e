"""``kernelwright audit``: the referee against every cheat and hostile program we know."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from kernelwright.cli import options
from kernelwright.cli.output import json_text, print_json, require_writable, stderr, stdout, write_text
from kernelwright.core.errors import UserError
from kernelwright.core.policy import Policy
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task
from kernelwright.report.measures import duration
from kernelwright.settings import load_settings

if TYPE_CHECKING:
    from kernelwright.core.roofline import Floor
    from kernelwright.corpus.audit import Finding
    from kernelwright.corpus.specimen import Specimen
    from kernelwright.referee.referee import Referee

DETAIL_CHARS = 100


def audit(
    family: Annotated[
        list[int] | None, typer.Option("--family", help="Only this family; repeatable.")
    ] = None,
    only: Annotated[str, typer.Option("--only", metavar="GLOB", help="Only specimens of such names.")] = "*",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Write audit.json and cheats.md there.")
    ] = None,
    naive: Annotated[
        bool, typer.Option("--naive", help="Also show what a harness that does not look says; unconfined.")
    ] = False,
    list_only: Annotated[bool, typer.Option("--list", help="Judge nothing; show how each must end.")] = False,
    require_sandbox: options.RequireSandbox = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge every known cheat and hostile program; exits 1 when one did not end as it must."""
    # lazy: keeps --help quick
    from kernelwright.corpus.load import load_specimens

    specimens = load_specimens(tuple(family or ()), only)
    if not specimens:
        raise UserError("no specimen is of such a family and name; leave out --family and --only for all")
    if out is not None:
        require_writable(out / "cheats.md")
    # lazy: keeps --help quick
    from kernelwright.corpus.audit import listed
    from kernelwright.corpus.tables import markdown, summary

    findings = listed(specimens) if list_only else _judge(specimens, naive=naive)
    findings.sort(key=lambda f: (f.specimen.kind, f.specimen.family, f.specimen.name))
    is_good = all(finding.is_as_expected for finding in findings)
    document = {"ok": is_good, "findings": [_record(finding) for finding in findings]}
    if out is not None:
        write_text(out / "audit.json", json_text(document))
        write_text(out / "cheats.md", markdown(findings))
    if as_json:
        print_json(document)
    else:
        stdout().print(_table(findings))
        stdout().print(summary(findings), soft_wrap=True)
    raise typer.Exit(0 if is_good else 1)


def _judge(specimens: "Sequence[Specimen]", *, naive: bool) -> "list[Finding]":
    # lazy: only when something is judged
    from kernelwright.corpus.audit import audit as judge_all

    # lazy: only when something is judged
    from kernelwright.devices.gpu_present import has_gpu

    needs_gpu = any(specimen.target == "cuda" for specimen in specimens)
    on_device = partial(_open_referee, device="cuda") if needs_gpu and has_gpu("cuda") else None
    findings: list[Finding] = []
    for finding in judge_all(specimens, _open_referee, _floors, on_device):
        findings.append(_with_naive(finding) if naive else finding)
        stderr().print(f"[{len(findings)}/{len(specimens)}] {describe(findings[-1])}", soft_wrap=True)
    return findings


def describe(finding: "Finding") -> str:
    """Return one finding in one line."""
    specimen = finding.specimen
    if not finding.is_judged:
        return f"{specimen.name}: {finding.outcome}" + (f": {finding.detail}" if finding.detail else "")
    how = finding.outcome.replace("_", " ") + (f" by {finding.check}" if finding.check else "")
    if finding.speedup is not None:
        how += f", {finding.speedup:.2f}x eager"
    if finding.control:
        how += f"; an honest kernel after it: {finding.control}"
    if finding.left:
        how += f"; it left {', '.join(finding.left)}"
    mark = "" if finding.is_as_expected else "NOT AS EXPECTED: "
    expected = "" if finding.is_as_expected else f" (must be {_expected(finding)})"
    detail = f": {finding.detail[:DETAIL_CHARS]}" if finding.detail else ""
    if finding.naive is not None:
        detail += f"; naively: {finding.naive.words}"
    return f"{mark}{specimen.name}: {how}{expected}{detail} ({duration(finding.seconds)})"


def _with_naive(finding: "Finding") -> "Finding":
    """Ask the naive harness about a cheat that claims to win there."""
    # lazy: only when it is asked for
    from kernelwright.corpus.naive import ask
    from kernelwright.corpus.specimen import Kind

    specimen = finding.specimen
    if not finding.is_judged or specimen.wins == "no" or specimen.kind is Kind.HOSTILE:
        return finding
    return finding.model_copy(update={"naive": ask(specimen, load_settings().cache_dir / "naive")})


def _expected(finding: "Finding") -> str:
    specimen = finding.specimen
    by = f" by {' or '.join(specimen.check)}" if specimen.check else ""
    return " or ".join(specimen.expect) + by


def _record(finding: "Finding") -> Mapping[str, object]:
    specimen = finding.specimen
    return {
        **finding.model_dump(mode="json", exclude={"specimen"}),
        "as_expected": finding.is_as_expected,
        **specimen.model_dump(mode="json", include={"name", "kind", "family", "title", "mechanism"}),
        "expected": {"outcome": list(specimen.expect), "check": list(specimen.check)},
    }


def _table(findings: "Sequence[Finding]") -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("family", "specimen", "verdict", "found by", "expected"):
        table.add_column(name, justify="right" if name == "family" else "left")
    for finding in findings:
        verdict = Text(finding.outcome.replace("_", " "))
        if not finding.is_as_expected:
            verdict.append("  not as expected", style="bold red")
        specimen = finding.specimen
        table.add_row(
            str(specimen.family), specimen.name, verdict, finding.check or "", _expected(finding),
            style="dim" if not finding.is_judged else "",
        )  # fmt: skip
    return table


def _open_referee(policy: Policy, device: str = "cpu") -> "Referee":
    # lazy: loads torch
    from kernelwright.referee.referee import Referee, RefereeSettings

    where = load_settings()
    wanted = where.require_sandbox
    return Referee(
        RefereeSettings(cache_dir=where.cache_dir, policy=policy, require_sandbox=wanted, device=device)
    )


def _floors(task: Task) -> "Mapping[str, Floor]":
    # lazy: loads torch
    from kernelwright.engine.prepare import prepare

    problem, _ = prepare(RunSpec(task=task, recipe="audit"), load_settings().cache_dir)
    return dict(problem.floors)

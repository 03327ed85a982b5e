"""``kernelwright audit``: the referee against every cheat and hostile program we know."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from kernelwright.cli import options
from kernelwright.cli.output import json_text, print_json, require_writable, stderr, stdout, write_text
from kernelwright.cli.running import EXIT_INTERRUPTED
from kernelwright.core.errors import UserError
from kernelwright.core.frozen import content_hash
from kernelwright.core.policy import Policy
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task
from kernelwright.report.measures import duration
from kernelwright.settings import load_settings

if TYPE_CHECKING:
    from kernelwright.core.roofline import Floor
    from kernelwright.corpus.audit import Finding
    from kernelwright.corpus.specimen import Specimen
    from kernelwright.referee.session.referee import Referee

DETAIL_CHARS = 100
AUDIT = "audit.json"


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
    device: Annotated[
        str,
        typer.Option("--device", help="Where all that can be is judged: cpu, cuda, cuda:N, hip or hip:N."),
    ] = "cpu",
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what an audit that was interrupted has left in --out.")
    ] = False,
    require_sandbox: options.RequireSandbox = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge every known cheat and hostile program; exits 1 when one did not end as it must.

    The files in --out are written after every verdict.
    """
    # lazy: keeps --help quick
    from kernelwright.corpus.load import load_specimens

    options.require_device(device)
    if resume and out is None:
        raise UserError("--resume goes on with what lies in a folder; name it with --out")
    specimens = load_specimens(tuple(family or ()), only)
    if not specimens:
        raise UserError("no specimen is of such a family and name; leave out --family and --only for all")
    if out is not None:
        require_writable(out / "cheats.md")
    # lazy: keeps --help quick
    from kernelwright.corpus.audit import listed
    from kernelwright.corpus.tables import summary

    how: dict[str, object] = {"device": device, "naive": naive}
    findings = listed(specimens) if list_only else _known(out, specimens, how) if resume and out else []
    try:
        for finding in _judge(specimens, findings, how):
            findings.append(finding)
            _write(out, findings, how, len(specimens))
    except KeyboardInterrupt:
        words = f"; what was judged is in {out}, go on with --resume" if out else ""
        stderr().print(f"interrupted{words}", soft_wrap=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    document = _write(out, findings, how, len(specimens))
    if as_json:
        print_json(document)
    else:
        stdout().print(_table(findings))
        stdout().print(summary(findings), soft_wrap=True)
    raise typer.Exit(0 if document["ok"] else 1)


def _judge(
    specimens: "Sequence[Specimen]", known: "Sequence[Finding]", how: Mapping[str, object]
) -> "Iterator[Finding]":
    """Judge what is not known yet; ends at once where nothing is left."""
    # lazy: only when something is judged
    from kernelwright.corpus.audit import audit as judge_all
    from kernelwright.corpus.audit import first_gpu
    from kernelwright.referee.device import parse_device

    done = {finding.specimen.name for finding in known}
    due = [specimen for specimen in specimens if specimen.name not in done]
    device = str(how["device"])
    place = parse_device(device)
    elsewhere = device
    if not place.is_apart:
        needs_gpu = any(specimen.needs_device for specimen in due)
        elsewhere = first_gpu().name if needs_gpu and first_gpu().is_here() else ""
    on_device = partial(_open_referee, device=elsewhere) if elsewhere else None
    number = len(done)
    for finding in judge_all(due, _open_referee, _floors, on_device, device=place.kind):
        number += 1
        stderr().print(f"[{number}/{len(specimens)}] {describe(finding)}", soft_wrap=True)
        yield _with_naive(finding) if how["naive"] else finding


def _write(
    out: Path | None, findings: "list[Finding]", how: Mapping[str, object], count: int
) -> dict[str, object]:
    """Return the document of what is known so far; write it, and the page, where there is a folder."""
    # lazy: keeps --help quick
    from kernelwright.corpus.tables import markdown

    findings.sort(key=lambda f: (f.specimen.kind, f.specimen.family, f.specimen.name))
    document: dict[str, object] = {
        "ok": all(finding.is_as_expected for finding in findings),
        "settings": how,
        "left": count - len(findings),
        "findings": [_record(finding) for finding in findings],
    }
    if out is not None:
        write_text(out / AUDIT, json_text(document))
        write_text(out / "cheats.md", markdown(findings))
    return document


def _known(out: Path, specimens: "Sequence[Specimen]", how: Mapping[str, object]) -> "list[Finding]":
    """Return what an earlier audit has judged of these specimens as they are now.

    Raises:
        UserError: it judged with other settings.
    """
    # lazy: keeps --help quick
    from kernelwright.corpus.audit import Finding
    from kernelwright.referee.device import parse_device

    if not (out / AUDIT).exists():
        return []
    try:
        document = json.loads((out / AUDIT).read_text(encoding="utf-8"))
        if document["settings"] != how:
            raise UserError(
                f"{out / AUDIT} was judged with {document['settings']}; name another folder with --out"
            )
        earlier = {record["name"]: record for record in document["findings"]}
        found = []
        for specimen in specimens:
            record = earlier.get(specimen.name, {})
            if record.get("source") == content_hash(specimen.source):
                is_apart = parse_device(str(how["device"])).is_apart
                own = specimen.on_device() if is_apart else specimen
                kept = {key: record[key] for key in Finding.model_fields if key != "specimen"}
                found.append(Finding.model_validate({**kept, "specimen": own}, strict=False))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{out / AUDIT} cannot be gone on with ({error}); leave out --resume") from error
    return [finding for finding in found if finding.is_judged]


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
        "source": content_hash(specimen.source),
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
    from kernelwright.referee.session.referee import Referee, RefereeSettings

    where = load_settings()
    wanted = where.require_sandbox
    return Referee(
        RefereeSettings(cache_dir=where.cache_dir, policy=policy, require_sandbox=wanted, device=device)
    )


def _floors(task: Task) -> "Mapping[str, Floor]":
    # lazy: loads torch
    from kernelwright.runs.prepare import prepare

    problem, _ = prepare(RunSpec(task=task, recipe="audit"), load_settings().cache_dir)
    return dict(problem.floors)

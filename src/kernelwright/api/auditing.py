"""The referee against every cheat and hostile program that we know."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernelwright.api import playing
from kernelwright.api.machines import bound_settings, require_device
from kernelwright.core.errors import UserError
from kernelwright.core.request import AuditRequest
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.corpus import audit as audits
from kernelwright.corpus.audit import SpecimenResult
from kernelwright.corpus.load import load_specimens
from kernelwright.corpus.naive import ask
from kernelwright.corpus.results import AUDIT, AuditResult, describe, known_findings
from kernelwright.corpus.specimen import Kind, Specimen
from kernelwright.referee.device import parse_device
from kernelwright.referee.version import REFEREE_VERSION
from kernelwright.report.progress import progress_console
from kernelwright.runs.prepare import floors_on
from kernelwright.settings import Settings


def run_audit(
    request: AuditRequest,
    *,
    settings: Settings | None = None,
    progress: bool | None = None,
    on_result: Callable[[AuditResult], object] = lambda result: None,
) -> AuditResult:
    """Judge every specimen that is asked for; ``on_result`` is called after each with what there is.

    Raises:
        UserError: something in the request cannot be.
        MachineError: no process, memory or compiler.
    """
    where = bound_settings(settings, request.require_sandbox)
    require_device(request.device)
    specimens = load_specimens(request.families, request.only)
    if not specimens:
        raise UserError("no specimen is of such a family and name; leave out --family and --only for all")
    how: dict[str, object] = {"device": request.device, "naive": request.naive, "referee": REFEREE_VERSION}

    def result(findings: Sequence[SpecimenResult]) -> AuditResult:
        ordered = sorted(findings, key=lambda f: (f.specimen.kind, f.specimen.family, f.specimen.name))
        return AuditResult(tuple(ordered), how, len(specimens))

    findings = _known(request, specimens, how)
    console = progress_console(progress)
    for finding in _judge(specimens, findings, request, where):
        findings.append(finding)
        if console is not None:
            console.print(f"[{len(findings)}/{len(specimens)}] {describe(finding)}", soft_wrap=True)
        on_result(result(findings))
    on_result(result(findings))
    return result(findings)


def _judge(
    specimens: Sequence[Specimen], known: Sequence[SpecimenResult], request: AuditRequest, settings: Settings
) -> Iterator[SpecimenResult]:
    """Judge what is not known yet; ends at once where nothing is left."""
    done = {finding.specimen.name for finding in known}
    due = [specimen for specimen in specimens if specimen.name not in done]
    place = parse_device(request.device)
    elsewhere = request.device
    if not place.is_apart:
        needs_gpu = any(specimen.needs_device for specimen in due)
        elsewhere = audits.first_gpu().name if needs_gpu and audits.first_gpu().is_here() else ""
    here = partial(playing.open_referee, settings)
    on_device = partial(here, device=elsewhere) if elsewhere else None

    def floors(task: Task) -> Mapping[str, Floor]:
        return floors_on(task, "cpu", settings.cache_dir)

    for finding in audits.audit(due, here, floors, on_device, device=place.kind):
        yield _with_naive(finding, settings) if request.naive else finding


def _known(
    request: AuditRequest, specimens: Sequence[Specimen], how: Mapping[str, object]
) -> list[SpecimenResult]:
    """Return what needs no judging: all of a listing, and what an earlier audit has judged.

    Raises:
        UserError: it judged with other settings.
    """
    if request.listing:
        return audits.listed(specimens)
    file = Path(request.out or "") / AUDIT
    if not (request.resume and file.exists()):
        return []
    try:
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if document["settings"] != how:
            raise UserError(f"{file} was judged with {document['settings']}; name another folder with --out")
        return known_findings(document, specimens, is_cpu=not parse_device(request.device).is_apart)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} cannot be gone on with ({error}); leave out --resume") from error


def _with_naive(finding: SpecimenResult, settings: Settings) -> SpecimenResult:
    """Ask the naive harness about a cheat that claims to win there."""
    specimen = finding.specimen
    if not finding.is_judged or specimen.wins == "no" or specimen.kind is Kind.HOSTILE:
        return finding
    return finding.model_copy(update={"naive": ask(specimen, settings.cache_dir / "naive")})

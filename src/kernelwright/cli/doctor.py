"""``kernelwright doctor``: is everything there, and what can this machine do at best."""

import dataclasses
from typing import Annotated

import typer

from kernelwright.cli.options import AsJson
from kernelwright.cli.output import print_json, print_table, say, tell
from kernelwright.report.table import Table
from kernelwright.settings import load_settings


def doctor(
    refresh: Annotated[bool, typer.Option("--refresh", help="Measure the peaks anew.")] = False,
    end_referee: Annotated[
        bool, typer.Option("--end-referee", help="End the referee that stays warm between commands.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check compiler, torch, memory, peaks, sandbox, warm referee; exits 2 when a needed one is missing."""
    # lazy: probes the machine
    from kernelwright.machine.doctor import checks
    from kernelwright.machine.probe import measure_peaks
    from kernelwright.referee.sandbox.report import check_sandbox
    from kernelwright.targets.device import PROCESSOR
    from kernelwright.targets.gpu.doctor import LOOKS
    from kernelwright.targets.gpu.peaks import refresh_here
    from kernelwright.warm.client import end_warm
    from kernelwright.warm.doctor import check_warm

    settings = load_settings()
    if end_referee:
        ended = end_warm(settings.cache_dir, PROCESSOR.name)
        say(f"ended the warm referee, process {ended.pid}" if ended else "there is no warm referee")
    if refresh:
        say("measuring this machine's peaks ...")
        measure_peaks(settings.cache_dir, refresh=True)
        refresh_here(settings.cache_dir)
    found = (*checks(settings.cache_dir, LOOKS), check_sandbox(), check_warm(settings.cache_dir))
    missing = [check for check in found if check.is_required and not check.ok]
    if as_json:
        listed = [dataclasses.asdict(check) for check in found]
        print_json({"ok": not missing, "checks": listed, "store": settings.store})
        raise typer.Exit(2 if missing else 0)
    rows, styles = [], []
    for check in found:
        mark = "ok" if check.ok else ("missing" if check.is_required else "note")
        rows.append((mark, check.name, check.value, check.advice))
        styles.append({"ok": "", "missing": "bold red", "note": "yellow"}[mark])
    print_table(Table(("",) * 4, rows, styles, is_text=True))
    tell(f"store: {settings.store}")
    raise typer.Exit(2 if missing else 0)

"""``kernelwright doctor``: is everything there, and what can this machine do at best."""

import dataclasses
from typing import Annotated

import typer
from rich.table import Table

from kernelwright.cli import options
from kernelwright.cli.output import print_json, stderr, stdout
from kernelwright.settings import load_settings


def doctor(
    refresh: Annotated[bool, typer.Option("--refresh", help="Measure the peaks anew.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Check compiler, torch, memory, peaks, counters, sandbox; exits 2 when a needed one is missing."""
    # lazy: probes the machine
    from kernelwright.machine.doctor import checks
    from kernelwright.machine.probe import measure_peaks
    from kernelwright.referee.sandbox.report import check_sandbox
    from kernelwright.targets.gpu.doctor import LOOKS
    from kernelwright.targets.gpu.peaks import refresh_here

    settings = load_settings()
    if refresh:
        stderr().print("measuring this machine's peaks ...")
        measure_peaks(settings.cache_dir, refresh=True)
        refresh_here(settings.cache_dir)
    found = (*checks(settings.cache_dir, LOOKS), check_sandbox())
    missing = [check for check in found if check.is_required and not check.ok]
    if as_json:
        listed = [dataclasses.asdict(check) for check in found]
        print_json({"ok": not missing, "checks": listed, "store": settings.store})
        raise typer.Exit(2 if missing else 0)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for check in found:
        mark = "ok" if check.ok else ("missing" if check.is_required else "note")
        style = {"ok": "green", "missing": "bold red", "note": "yellow"}[mark]
        table.add_row(mark, check.name, check.value, check.advice, style=style if mark != "ok" else "")
    stdout().print(table)
    stdout().print(f"store: {settings.store}", soft_wrap=True)
    raise typer.Exit(2 if missing else 0)

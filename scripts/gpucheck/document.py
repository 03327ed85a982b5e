"""The whole check as JSON and as Markdown."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpucheck.machine import Machine
from gpucheck.parts import BENCHES
from gpucheck.results import Result, State, write_atomically

FILES = ("gpu-check.json", "gpu-check.md")


def write(folder: Path, machine: Machine, results: Sequence[Result], *, date: str, command: str) -> None:
    """Write both files, each in one step."""
    document = {
        "date": date,
        "command": command,
        "machine": machine.record(),
        "complete": all(result.state.is_ended for result in results),
        "parts": [result.record() for result in results],
    }
    write_atomically(folder / FILES[0], json.dumps(document, indent=2) + "\n")
    write_atomically(folder / FILES[1], markdown(machine, results, date=date, command=command))


def markdown(machine: Machine, results: Sequence[Result], *, date: str, command: str) -> str:
    """Return the readable document: the machine, a row a part, then what each found."""
    versions = "; ".join(f"{name} {version}" for name, version in machine.versions.items())
    parts = [
        "# GPU check",
        f"{date}. {_devices(machine)}; driver {machine.driver or 'unknown'}; {versions}.",
        f"```\n{command}\n```",
        _table(
            ("part", "state", "seconds", "what"),
            [(r.title, r.state.value, f"{r.seconds:.0f}", _says(r)) for r in results],
        ),
    ]
    for result in results:
        body = _body(result)
        if body:
            parts += [f"## {result.title}", *body]
    return "\n\n".join(parts) + "\n"


def _devices(machine: Machine) -> str:
    names = [
        f"{device['name']} ({device['units']} units, {device['memory_bytes'] / 2**30:.0f} GiB)"
        for device in machine.devices
    ]
    return ", ".join(names) or "no device"


def _says(result: Result) -> str:
    found = result.figures
    words = [result.detail] if result.detail else []
    if result.name == "start" and found:
        words += [f"{step['name']}: {step['detail']}" for step in found["steps"] if not step["ok"]]
        words += [f"sandbox {found['tier']}"] if found["tier"] else []
    if result.name == "tests" and found:
        failing = found["failures"] + found["errors"]
        words.append(f"{found['tests']} tests, {failing} failing, {found['skipped']} skipped")
    if result.name == "cheats" and found:
        words.append(
            f"{found['as_expected']} of {found['judged']} judged ended as they must, of {found['specimens']}"
            + (f", {found['left']} left" if found.get("left") else "")
        )
    if result.name in BENCHES and found:
        words.append(_bench_words(found))
    if result.name == "profile" and found:
        profiled = sum(bool(row.get("kernel")) for row in found["rows"])
        words.append(f"{profiled} of {len(found['rows'])} profiled")
    if result.name == "honest" and found:
        verified = sum(row["verified"] for row in found["rows"])
        words.append(f"{verified} of {found['judged']} verified, {found['left']} left")
    if result.name == "noise" and found:
        called = [row["n_called"] for row in found["rows"] if row["title"].startswith("Equal")]
        words.append(f"{sum(called)} false calls in {found['judged']} trials, {found['left']} left")
    return "; ".join(words)


def _bench_words(found: dict[str, Any]) -> str:
    summary = found.get("summary")
    left = f", {found['left']} not begun" if found.get("left") else ""
    if not summary:
        return f"no task ended{left}"
    known = {"eager": summary.get("eager"), "torch_compile": summary.get("compiled")}
    spread = "".join(
        f", geomean over {name} {over['geomean']:.2f}x [{over['low']:.2f}, {over['high']:.2f}]"
        for name, over in {**known, **summary.get("over", {})}.items()
        if over
    )
    return f"{summary['n_success']} of {summary['n_tasks']} right, {summary['n_faster']} faster{spread}{left}"


def _body(result: Result) -> list[str]:
    found = result.figures
    body = []
    if result.name == "start" and found:
        steps = [
            (s["name"], "yes" if s["ok"] else "NO", f"{s['seconds']}", s["detail"]) for s in found["steps"]
        ]
        body.append(_table(("step", "well", "seconds", "what"), steps))
    if result.name == "tests" and found.get("failing"):
        body.append("\n".join(f"- {name}" for name in found["failing"]))
    if result.name == "cheats" and found.get("rows"):
        rows = [
            (
                r["name"],
                r["outcome"],
                r["check"] or "",
                "yes" if r["as_expected"] else "NO",
                (r["detail"] or "")[:160],
            )
            for r in found["rows"]
        ]
        body.append(_table(("specimen", "ended", "found by", "as it must", "detail"), rows))
    if result.name in BENCHES and found.get("rows"):
        further = sorted({name for row in found["rows"] for name in row.get("speedups") or {}})
        names = ("eager", "torch.compile", *further)
        header = ("task", "ending", "eager ms", "delivered ms", *(f"over {n}" for n in names), "of the floor")
        body.append(_table(header, [_bench_row(row, further) for row in found["rows"]]))
    if result.name == "profile" and found.get("rows"):
        profiled = ("task", "of the floor", "hottest kernel", "facts", "how")
        body.append(_table(profiled, [_profile_row(row) for row in found["rows"]]))
    if result.name == "honest" and found.get("rows"):
        judged = [
            (r["name"], r["title"], f"{r['verified']} of {r['runs']}", r["detail"]) for r in found["rows"]
        ]
        body.append(_table(("kernel", "what it does", "verified", "detail"), judged))
    if result.name == "noise" and found.get("rows"):
        trials = [
            (
                r["title"],
                *(_number(r[key]) for key in ("n_trials", "n_called", "n_unverified", "bias", "spread")),
            )
            for r in found["rows"]
        ]
        header = ("trials", "n", "called", "not verified", "bias", "sd of log")
        body.append(_table(header, trials))
    if result.state in (State.FAILED, State.LATE) and result.last_lines:
        body.append("Its last lines:\n\n" + "\n".join(f"    {line}" for line in result.last_lines))
    return body


def _bench_row(row: dict[str, Any], further: Sequence[str]) -> tuple[str, ...]:
    return (
        row["task"],
        row["ending"] + (f": {row['detail'][:120]}" if row["ending"] == "failed" else ""),
        _number(row["eager_ms"]),
        _number(row["delivered_ms"]),
        _interval(row["speedup_eager"]),
        _interval(row["speedup_compile"]),
        *(_interval((row.get("speedups") or {}).get(name)) for name in further),
        "" if row["floor_fraction"] is None else f"{row['floor_fraction']:.0%}",
    )


def _profile_row(row: dict[str, Any]) -> tuple[str, ...]:
    facts = ", ".join(f"{key} {_number(value)}" for key, value in (row.get("facts") or {}).items())
    share = row.get("floor_fraction")
    return (
        row["task"],
        "" if share is None else f"{share:.0%}",
        row.get("kernel") or "",
        facts,
        row.get("detail") or "",
    )


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _interval(value: dict[str, float] | None) -> str:
    return "" if value is None else f"{value['ratio']:.2f}x [{value['low']:.2f}, {value['high']:.2f}]"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    cells = [[" ".join(str(cell).replace("|", r"\|").split()) for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)

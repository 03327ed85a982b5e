"""What a part came to: kept in a file of its own the moment it has ended, and read again to resume."""

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

RESULT = "result.json"
OUTPUTS = {
    "start": "start.json",
    "tests": "junit.xml",
    "cheats": "audit.json",
    "suite": "results.json",
    "kernelbench": "results.json",
    "finals": "results.json",
    "profile": "profiles.json",
    "honest": "honest.json",
    "noise": "noise.json",
}
"""What each part's command leaves for ``figures``."""


TRIALS = "trials*.jsonl"
"""What benchmarks carry on from."""
NOT_JUDGED = ("needs", "not judged", "for another")
"""How the outcomes of specimens begin that the audit did not judge."""


class State(StrEnum):
    """How a part ended."""

    DONE = "done"
    NEGATIVE = "negative"
    """It ran to its end and found something wrong: tests fail, a cheat wins, a task has no right kernel."""
    FAILED = "failed"
    """Its command failed."""
    LATE = "late"
    """Its time was up; what it had by then is kept."""
    SKIPPED = "skipped"

    @property
    def is_ended(self) -> bool:
        """True where resuming need not repeat it."""
        return self in (State.DONE, State.NEGATIVE)


@dataclass(frozen=True)
class Result:
    """One part's end."""

    name: str
    title: str
    state: State
    detail: str = ""
    """One line where it is not done."""
    seconds: float = 0.0
    command: list[str] = field(default_factory=list)
    exit_code: int | None = None
    last_lines: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    """Read from what the command left; empty where it left nothing that can be read."""

    def record(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {**asdict(self), "state": self.state.value}


def save(folder: Path, result: Result) -> None:
    """Write a part's result; whoever reads meanwhile finds the old one or the new one."""
    write_atomically(folder / result.name / RESULT, json.dumps(result.record(), indent=2) + "\n")


def load(folder: Path, name: str) -> Result | None:
    """Return a part's earlier result, None where there is none that can be read."""
    try:
        record = json.loads((folder / name / RESULT).read_text(encoding="utf-8"))
        return Result(**{**record, "state": State(record["state"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_atomically(path: Path, text: str) -> None:
    """Write a file beside its place, then rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def forget(folder: Path, name: str) -> None:
    """Remove what an earlier command of a part left: it says nothing of the next one."""
    if name in OUTPUTS:
        (folder / name / OUTPUTS[name]).unlink(missing_ok=True)
    for trials in (folder / name).glob(TRIALS):
        trials.unlink()


def figures(folder: Path, name: str) -> dict[str, Any]:
    """Return what a part's command left, in short; empty where that cannot be read."""
    reader = {
        "start": _start,
        "tests": _tests,
        "cheats": _cheats,
        "suite": _bench,
        "kernelbench": _bench,
        "finals": _bench,
        "profile": _profile,
        "honest": _honest,
        "noise": _noise,
    }
    try:
        return reader[name](folder / name / OUTPUTS[name])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ElementTree.ParseError):
        return {}


def _start(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    return {key: found.get(key) for key in ("tier", "fault", "steps")}


def _tests(path: Path) -> dict[str, Any]:
    root = ElementTree.parse(path).getroot()
    suite = root if root.tag == "testsuite" else next(iter(root))
    counts = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
    bad = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in suite.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    return {**counts, "failing": bad}


def _cheats(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text(encoding="utf-8"))
    findings = document["findings"]
    rows = [
        {key: finding.get(key) for key in ("name", "outcome", "check", "as_expected", "detail")}
        for finding in findings
    ]
    judged = [row for row in rows if not str(row["outcome"]).startswith(NOT_JUDGED)]
    return {
        "specimens": len(rows),
        "judged": len(judged),
        "left": document.get("left", 0),
        "as_expected": sum(bool(row["as_expected"]) for row in judged),
        "rows": rows,
    }


def _bench(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text(encoding="utf-8"))
    kept = (
        "task",
        "ending",
        "speedup_eager",
        "speedup_compile",
        "speedups",
        "floor_fraction",
        "eager_ms",
        "delivered_ms",
    )
    rows = [{key: row.get(key) for key in (*kept, "run_id", "detail")} for row in document["rows"]]
    return {"summary": next(iter(document["summaries"]), None), "rows": rows, "left": len(document["left"])}


def _profile(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text(encoding="utf-8"))
    return {"rows": document["rows"], "left": document.get("left", 0)}


def _honest(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        {
            "name": row["kernel"],
            "title": row["title"],
            "runs": row["runs"],
            "verified": row["verified"],
            "detail": "; ".join(f"{why['status']}: {why['detail']}" for why in row["rejections"]),
        }
        for row in document["rows"]
    ]
    return {"rows": rows, "judged": sum(row["runs"] for row in rows), "left": document["left"]}


def _noise(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text(encoding="utf-8"))
    groups = {title: shares[0] for title, shares in document["shares"].items() if shares}
    kept = ("n_trials", "n_called", "n_unverified", "bias", "spread")
    rows = [{"title": title, **{key: share[key] for key in kept}} for title, share in groups.items()]
    return {"rows": rows, "judged": document["n_trials"], "left": document["left"]}

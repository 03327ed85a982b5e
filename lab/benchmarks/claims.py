"""Kernels that others published judged: cuPilot's and those of KernelBench's leaderboard.

Nothing of theirs is in this repository: name checkouts of champloo2878/cuPilot-Kernels and
anneouyang/KernelBenchLeaderboard. The problems are those of the leaderboard's checkout. Claims of speed are
told and not compared, so that the table holds on any machine. ``--step N`` takes every Nth kernel.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from kernelwright.formats.claims import CLAIMS, PublishedClaim, claims_text
from kernelwright.report import markdown

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
HEADER = ("kernel", "claimed over eager", "verdict", "what compilers say, and why it was not judged")


def main() -> None:
    """Write benchmarks/results/claims.json and claims.md."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("leaderboard", type=Path, help="checkout of anneouyang/KernelBenchLeaderboard")
    options.add_argument("cupilot", type=Path, help="checkout of champloo2878/cuPilot-Kernels")
    options.add_argument("--step", type=int, default=1)
    options.add_argument("--out", type=Path, default=RESULTS)
    asked = options.parse_args()
    every = [*of_leaderboard(asked.leaderboard), *of_cupilot(asked.cupilot, asked.leaderboard)]
    chosen = every[:: asked.step]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder, [claim for claim, _, _ in chosen], [text for _, text, _ in chosen])
        words = [sys.executable, "-m", "kernelwright", "verify-claims", name, "--out", str(folder / "out")]
        if subprocess.run(words, check=False).returncode not in (0, 1):
            sys.exit("verify-claims failed; its own line says why")
        judged = json.loads((folder / "out" / "claims-judged.json").read_text(encoding="utf-8"))["claims"]
    rows = [row_of(found, speedup) for found, (_, _, speedup) in zip(judged, chosen, strict=True)]
    document = {"date": date.today().isoformat(), "step": asked.step, "of": len(every), "claims": rows}
    (asked.out / "claims.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (asked.out / "claims.md").write_text(page(document), encoding="utf-8")


Published = tuple[PublishedClaim, tuple[Path, Path], float | None]
"""A claim, the files of its task and kernel, and the speedup that was claimed."""


def of_leaderboard(checkout: Path) -> Iterator[Published]:
    """Yield the leaderboard's entries."""
    assets = checkout / "docs" / "assets"
    for title, entries in json.loads((assets / "data.json").read_text(encoding="utf-8")).items():
        level, number = title.split(":")[0].split()[-1], title.split(": ")[1].split("_")[0]
        task = assets / "problems" / f"l{level}_p{number}.py"
        for entry in entries:
            kernel = assets / "solutions" / f"{entry['file']}.py"
            if task.exists() and kernel.exists():
                name = f"leaderboard, level {level} problem {number}, {entry['display_name']}"
                yield claim_of(task, kernel, name), (task, kernel), entry["torch_speedup"]


def of_cupilot(checkout: Path, problems: Path) -> Iterator[Published]:
    """Yield cuPilot's kernels with the latency ratio of its last epoch."""
    with (checkout / "latency_summary.csv").open(encoding="utf-8") as file:
        ratios = {row["Problem_ID"]: float(row["Ratio_to_Target"]) for row in csv.DictReader(file)}
    for kernel in sorted((checkout / "kernels").glob("*.cu"), key=lambda one: int(one.name.split("_")[0])):
        number = kernel.name.split("_")[0]
        task = problems / "docs" / "assets" / "problems" / f"l1_p{number}.py"
        if task.exists():
            yield claim_of(task, kernel, f"cuPilot, problem {number}"), (task, kernel), ratios.get(number)


def claim_of(task: Path, kernel: Path, name: str) -> PublishedClaim:
    """Return a claim of correctness."""
    return PublishedClaim(task=f"tasks/{task.name}", kernel=f"kernels/{kernel.name}", name=name)


def lay_out(folder: Path, claims: list[PublishedClaim], files: list[tuple[Path, Path]]) -> None:
    """Write the folder that verify-claims reads."""
    for claim, (task, kernel) in zip(claims, files, strict=True):
        for path, source in ((claim.task, task), (claim.kernel, kernel)):
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_bytes(source.read_bytes())
    (folder / CLAIMS).write_text(claims_text(claims), encoding="utf-8")


def row_of(found: dict[str, Any], speedup: float | None) -> dict[str, Any]:
    """Return what is kept of a row: no time of this machine."""
    evaluation = found["evaluation"] or {}
    kept = {"name": found["claim"]["name"], "speedup": speedup, "status": evaluation.get("status")}
    return {**kept, "check": evaluation.get("check"), "meaning": found["meaning"]}


def page(document: dict[str, Any]) -> str:
    """Return the table as a page."""
    claims = document["claims"]
    rows = [
        (
            row["name"],
            "" if row["speedup"] is None else f"{row['speedup']:.2f}x",
            (row["status"] or "not judged").replace("_", " "),
            row["meaning"],
        )
        for row in claims
    ]
    built = Counter(row["meaning"].split(" for ")[0] for row in claims if row["status"] is None)
    counts = "".join(f"- {words}: {n}\n" for words, n in built.most_common())
    n_judged = sum(row["status"] is not None for row in claims)
    command = f"python -m lab.benchmarks.claims LEADERBOARD CUPILOT --step {document['step']}"
    return (
        f"# Published kernels\n\n{document['date']}. {len(claims)} of {document['of']} kernels, {n_judged} "
        "of them judged on a processor. The others need a GPU, which was not there: a compiler looked at "
        "them.\n"
        "Speedups are what was published; nothing here was timed. Reproduce with\n\n"
        f"{markdown.code(command)}\n\n"
        f"How the inspections ended:\n\n{counts}\n{markdown.table(HEADER, rows)}\n"
    )


if __name__ == "__main__":
    main()

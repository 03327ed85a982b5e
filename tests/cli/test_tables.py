"""Tables on terminals of any width."""

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from lab.sample_run import make_store, verified
from rich.console import Console
from rich.table import Table as RichTable
from tests.cli.test_memory import add_outcomes
from tests.report.test_inspections import FOUND
from tests.report.test_resultspage import A, bench, comparison, played, row

from kernelwright.cli import evaluate, inspect, output, runs
from kernelwright.core.blocks import BlockShare
from kernelwright.core.candidate import Candidate
from kernelwright.core.checkup import Checkup, Flag, Severity
from kernelwright.core.evaluation import NumericalError, Speedup, Timing, WorkloadResult
from kernelwright.core.events import ModelTakenApart
from kernelwright.corpus.audit import SpecimenResult
from kernelwright.corpus.load import load_specimens
from kernelwright.corpus.results import AuditResult
from kernelwright.formats.claims import PublishedClaim
from kernelwright.formats.kernelbench import BenchClaim, GenerationId
from kernelwright.report.blocks import block_table
from kernelwright.report.claims import ClaimsResult, JudgedClaim
from kernelwright.report.results import CheckResult, KernelComparison
from kernelwright.report.spaces import SpaceDecision, SpacePoint, SpaceResult
from kernelwright.report.story import tell
from kernelwright.report.submissions import JudgedGeneration, SubmissionResult
from kernelwright.report.table import Table
from kernelwright.skills.load import load_skills
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.store_contract import make_finding, make_plan

TABLE = Table(
    ("run", "recipe", "result"),
    [("1qveqtys36p", "kernelwright", "4.16x")],
    is_text=True,
    spare=("recipe",),
)


EVENTS = make_store().events
MS = Timing(median_ms=1234.5, p10_ms=1111.1, p90_ms=1357.9, n_samples=5, calls_per_sample=2)
TIMED = WorkloadResult(
    workload="batch_size=2048", candidate=MS, baselines={"eager": MS, "torch_compile_frozen": MS},
    speedups=(Speedup(baseline="torch_compile_frozen", ratio=12.34, low=11.11, high=13.57),),
)  # fmt: skip
ERROR = NumericalError(
    workload="batch_size=2048", family="odd_elements", output="out0", error=1.5e-7, allowed=1e-6,
    reference_error=1.5e-7,
)  # fmt: skip
FINAL = verified(Candidate(source="k"), 2.0).model_copy(update={"errors": (ERROR,), "results": (TIMED,)})
FLAG = Flag(check="constant-output", severity=Severity.DOUBTFUL, says="the output hardly varies", advice="")
CLAIM = PublishedClaim(task="19_ReLU.py", kernel="level1/19_ReLU.py", name="19_ReLU", speedup=3.1)
BLOCK = BlockShare(
    name="ResidualAttentionBlock", paths=("layers.0", "layers.1", "layers.2", "layers.3"), before_ms=6.0,
    share=0.6, after_ms=3.0, candidate="c", speedup=2.0,
)  # fmt: skip
DECISION = SpaceDecision("own.convolution_2", "library", ("torch", "generated"), "torch", "it multiplies", {})
POINT = SpacePoint({"own.convolution_2": "generated"}, (), None, 1, 0, "lowering gives up: too large")


def compared() -> list[Table]:
    teams = [A.model_copy(update={"recipe": name}) for name in ("kernelwright", "best-of-n", "kernelskill")]
    runs = [played(task, who, 2.0) for task in "tuvwxyz" for who in teams]
    return comparison(*runs, contestants=teams).tables()


def results() -> dict[str, list[Table]]:
    """Return the tables that commands print, with cells as long as they come."""
    key, claimed = GenerationId(1, 19, 0), BenchClaim(compiled=True, correctness=True, runtime=1.0)
    checkup = Checkup(task="19_ReLU", task_id="", sizes={}, flags=(FLAG,))
    specimen = SpecimenResult(specimen=load_specimens()[0], outcome="incorrect_numerics", check="oracle")
    apart = ModelTakenApart(before_ms=10.0, after_ms=7.0, blocks=(BLOCK,), compositions=())
    return {
        "bench": bench(row("19_ReLU_and_more"), row("20", category="attention")).tables(),
        "compare": compared(),
        "check": CheckResult((checkup,), "", {}).tables(),
        "audit": AuditResult((specimen,), {}, 1).tables(),
        "evaluate": [
            *KernelComparison("t", ("kernels/fast.py",), (FINAL,)).tables(),
            evaluate._errors(FINAL),
            evaluate._timings(FINAL),
        ],
        "inspect": [inspect._table(found) for found in FOUND],
        "optimize": [block_table(apart, None)],
        "runs show": [runs._steps(tell(EVENTS))],
        "space": SpaceResult("t", "cpu/cpp", {"library": 0.3}, (DECISION,), (POINT,)).tables(),
        "submission": SubmissionResult(
            (JudgedGeneration(key, "19_ReLU", {}, FINAL, "", claimed, 3.1),), 1, "", {}
        ).tables(),
        "verify-claims": ClaimsResult((JudgedClaim(CLAIM, FINAL),), "", {}).tables(),
    }


LONGEST = 20
"""Characters of a word that no column may break; names that are longer may be."""


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[str]]:
    """Print into a terminal of 80 columns; tells which words of the last table are not whole there."""
    text, words = StringIO(), set[str]()

    class Watched(RichTable):
        def add_column(self, header: Any = "", *rest: Any, **options: Any) -> None:
            words.update(header.split())
            super().add_column(header, *rest, **options)

        def add_row(self, *cells: Any, **options: Any) -> None:
            words.update(word for cell in cells for word in cell.split())
            super().add_row(*cells, **options)

    console = Console(width=80, height=40, force_terminal=True, no_color=True, file=text)
    monkeypatch.setattr(output, "make_console", lambda is_stderr: console)
    monkeypatch.setattr(output, "RichTable", Watched)

    def broken() -> set[str]:
        found = {word for word in words if len(word) <= LONGEST} - set(text.getvalue().split())
        words.clear()
        text.truncate(text.seek(0))
        return found

    return broken


@pytest.mark.parametrize("command", results())
def test_no_word_of_a_table_is_broken_in_80_columns(command: str, narrow: Callable[[], set[str]]) -> None:
    for table in results()[command]:
        output.print_table(table)
        assert narrow() == set(), table.header


@pytest.mark.parametrize(
    "command",
    ["memory show", "memory findings", "memory archive", "skills list", "runs list", "doctor"],
)
def test_no_word_of_what_a_store_or_a_folder_holds_is_broken(
    command: str, cli: Any, tmp_path: Any, engine: Any, task_file: Any, narrow: Callable[[], set[str]]
) -> None:
    store = open_store(tmp_path / "runs.db")
    add_outcomes(store, 0, 3, skill=max(load_skills(), key=len))
    store.add_plan(make_plan())
    store.add_finding(make_finding(1))
    cli("optimize", task_file, "--json")
    cli(*command.split())
    assert narrow() == set()


@pytest.mark.parametrize(("width", "is_whole"), [(80, False), (output.WIDE, True)])
def test_spare_columns_are_left_out_of_a_narrow_terminal_and_named(
    monkeypatch: pytest.MonkeyPatch, width: int, is_whole: bool
) -> None:
    text = StringIO()
    console = Console(width=width, height=40, force_terminal=True, no_color=True, file=text)
    monkeypatch.setattr(output, "make_console", lambda is_stderr: console)
    output.print_table(TABLE)
    shown = text.getvalue()
    assert "1qveqtys36p" in shown and "4.16x" in shown
    assert ("kernelwright" in shown) == is_whole
    assert ("Not shown in 80 columns: recipe" in shown) == (not is_whole)

"""Planted bugs before a real referee: a few of every kind, sharing one session; and the book-keeping."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from lab.mutants.bases import BASES
from lab.mutants.catalogue import Mutant, mutants_of
from lab.trials import Journal, Trial, trial_of
from tests.lab.benchmarks.conftest import load_benchmark

from kernelwright.core.evaluation import Evaluation, Stage, Status
from kernelwright.referee.session.referee import Referee, RefereeSession

SMALL = replace(
    next(b for b in BASES if b.number == 12), sizes={"batch_size": 2, "steps": 9, "features": 131}
)
KILLED = {
    "kernel/tail_dropped": "incorrect_numerics",
    "kernel/eps_dropped": "non_finite|incorrect_numerics",
    "kernel/sum_in_bf16": "incorrect_numerics",
    "kernel/broadcast_lost": "incorrect_numerics",
    "module/result_buffer_kept": "aliased_output",
    "module/first_weights_kept": "incorrect_numerics",
    "module/wider_result": "incorrect_dtype",
    "meaning/input_written": "mutated_input",
    "meaning/weights_assumed": "incorrect_numerics",
    "meaning/input_clipped": "incorrect_numerics",
}
"""Layer and operator -> the status that its first mutant ends with; which comes first may be open."""


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return load_benchmark("mutants")


@pytest.fixture(scope="module")
def mutants() -> dict[str, Mutant]:
    found: dict[str, Mutant] = {}
    for mutant in mutants_of(SMALL):
        found.setdefault(f"{mutant.layer}/{mutant.operator}", mutant)
    return found


@pytest.fixture(scope="module")
def session(benchmark: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RefereeSession]:
    cache = tmp_path_factory.mktemp("cache")
    with Referee(benchmark.quick_settings(cache)) as referee, referee.open(SMALL.task) as session:
        yield session


@pytest.mark.slow
@pytest.mark.parametrize("name", KILLED)
def test_a_planted_bug_is_found(
    benchmark: ModuleType, session: RefereeSession, mutants: dict[str, Mutant], name: str
) -> None:
    evaluation = benchmark.judge(session, mutants[name].source)
    assert str(evaluation.status) in KILLED[name].split("|"), evaluation.detail


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kernel/float_total", "meaning/subnormals_flushed"])
def test_what_is_no_bug_is_verified(
    benchmark: ModuleType, session: RefereeSession, mutants: dict[str, Mutant], name: str
) -> None:
    mutant = mutants[name]
    assert mutant.equivalent
    evaluation = benchmark.judge(session, mutant.source)
    assert evaluation.is_verified, evaluation.detail


@pytest.mark.slow
def test_the_originals_are_verified(
    benchmark: ModuleType, session: RefereeSession, mutants: dict[str, Mutant]
) -> None:
    for name in ("kernel/tail_dropped", "meaning/input_written"):
        evaluation = benchmark.judge(session, mutants[name].original)
        assert evaluation.is_verified, evaluation.detail


@pytest.mark.slow
def test_a_kernel_is_compared_with_its_mutant_to_the_last_bit(
    benchmark: ModuleType, mutants: dict[str, Mutant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "equal to the last bit on 24 draws" in benchmark.compare(
        mutants["meaning/subnormals_flushed"], tmp_path
    )
    assert "on 0 of 24 draws" in benchmark.compare(mutants["meaning/input_made_ones"], tmp_path)


def _evaluation(status: Status, detail: str = "") -> Evaluation:
    stage = Stage.DONE if status is Status.VERIFIED else Stage.VERIFY
    return Evaluation(candidate_id="c", task_id="t", stage=stage, status=status, detail=detail)


def test_a_list_is_carried_on_and_a_changed_mutant_is_judged_anew(
    mutants: dict[str, Mutant], tmp_path: Path
) -> None:
    one = mutants["kernel/tail_dropped"]
    path = tmp_path / "trials.jsonl"
    found = _evaluation(
        Status.INCORRECT_NUMERICS, "out0 on heavy_tail, randomised weights inputs: scaled error 3"
    )
    Journal(path).add(trial_of(one, 0, found))
    with path.open("a", encoding="utf-8") as file:
        file.write('{"key": "cut o')
    journal = Journal(path)
    again = journal.find(one, 0)
    assert again is not None and again.family == "heavy_tail, randomised weights"
    assert journal.find(one, 1) is None
    assert journal.find(replace(one, source=one.source + "#"), 0) is None


def test_the_table_tells_killed_equivalent_survived_and_wrongly_declared(
    benchmark: ModuleType, mutants: dict[str, Mutant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "compare", lambda mutant, cache: "equal to the last bit on 24 draws")
    monkeypatch.setattr(benchmark, "Referee", _no_referee)
    wrong, right = Status.INCORRECT_NUMERICS, Status.VERIFIED
    verdicts = {
        "kernel/tail_dropped": (wrong, "killed"),
        "kernel/eps_dropped": (right, "survived"),
        "kernel/float_total": (right, "equivalent"),
        "meaning/subnormals_flushed": (wrong, "declared, yet rejected"),
    }
    chosen = tuple(mutants[name] for name in verdicts)
    monkeypatch.setattr(benchmark, "catalogue", lambda only: chosen)
    journal = Journal(tmp_path / "work" / "trials.jsonl")
    for name, (status, _) in verdicts.items():
        journal.add(trial_of(mutants[name], 0, _evaluation(status)))
    journal.add(trial_of(mutants["kernel/eps_dropped"], benchmark.FINAL, _evaluation(right)))
    arguments = ["--work", str(tmp_path / "work"), "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["mutants.py", *arguments])
    assert benchmark.main() == 1
    document = json.loads((tmp_path / "out" / "mutants.json").read_text(encoding="utf-8"))
    assert [row["verdict"] for row in document["rows"]] == [verdict for _, verdict in verdicts.values()]
    text = (tmp_path / "out" / "mutants.md").read_text(encoding="utf-8")
    assert (
        "1 killed (0 of them not before the final evaluation), 1 equivalent" in text
        and "## Survivors" in text
    )


def test_a_race_is_judged_several_times_and_killed_when_it_is_found_once(
    benchmark: ModuleType, mutants: dict[str, Mutant], tmp_path: Path
) -> None:
    race = replace(mutants["kernel/tail_dropped"], operator="shared_accumulator")
    journal = Journal(tmp_path / "trials.jsonl")
    for n, status in enumerate((Status.VERIFIED, Status.INCORRECT_NUMERICS, Status.VERIFIED)):
        journal.add(trial_of(race, n, _evaluation(status)))
    row = benchmark.row(race, journal, tmp_path)
    assert (row["verdict"], row["caught"]) == ("killed", "1 of 3")


class _no_referee:
    def __init__(self, settings: object) -> None:
        pass

    def __enter__(self) -> "_no_referee":
        return self

    def __exit__(self, *error: object) -> None:
        return None


def test_trials_are_whole_when_read_back(tmp_path: Path) -> None:
    trial = Trial(key="k", name="n", run=2, status="verified", stage="done", seconds=1.5)
    assert Trial.model_validate_json(trial.model_dump_json()) == trial


def test_what_a_search_lets_pass_meets_a_final(
    benchmark: ModuleType, mutants: dict[str, Mutant], tmp_path: Path
) -> None:
    bug, no_bug = mutants["kernel/tail_dropped"], mutants["kernel/float_total"]
    journal = Journal(tmp_path / "trials.jsonl")
    assert benchmark.open_runs(bug, journal) == [0]
    for mutant in (bug, no_bug):
        journal.add(trial_of(mutant, 0, _evaluation(Status.VERIFIED)))
    assert benchmark.open_runs(bug, journal) == [benchmark.FINAL]
    assert benchmark.open_runs(no_bug, journal) == []
    journal.add(trial_of(bug, benchmark.FINAL, _evaluation(Status.INCORRECT_NUMERICS)))
    row = benchmark.row(bug, journal, tmp_path)
    assert (row["verdict"], row["caught"]) == ("killed", "in the final")

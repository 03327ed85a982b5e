"""Comparisons of stored runs, with figures worked out by hand."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.golden import check_golden

from kernelwright.core.budget import Budget, Spent
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Status
from kernelwright.core.events import CandidateEvaluated, RunFinished, RunStarted, StepStarted
from kernelwright.core.model_call import CallOutcome, ModelCall
from kernelwright.core.run import RunSpec, RunState
from kernelwright.core.task import Task
from kernelwright.report.comparison import (
    MIN_PAIRED,
    Comparison,
    Conditions,
    compare_runs,
)
from kernelwright.report.comparisonpicture import comparison_picture
from kernelwright.report.comparisontext import NOT_MEASURED, comparison_markdown, cost_cells
from kernelwright.report.estimates import estimate
from kernelwright.report.measures import RatioInterval
from kernelwright.report.played import Contestant, Played, played_run
from kernelwright.report.tables import Ending
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import fake_evaluation

GOLDEN = Path(__file__).parent / "golden"
A, B = Contestant(recipe="a", team="expert"), Contestant(recipe="b", team="expert")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


def add_run(
    store: Store,
    task: str,
    contestant: Contestant,
    searched: list[float | Status],
    final: float | None,
    *,
    seed: int = 0,
    is_finished: bool = True,
    answers: dict[str, int] | None = None,
) -> str:
    """Put a run into the store: what each evaluation came to, then what was delivered (None: unchanged)."""
    work = Task(name=task, source=task)
    spec = RunSpec(task=work, recipe=contestant.recipe, team=contestant.team, seed=seed, experiment="x")
    run_id = store.create_run(spec)
    store.append_event(run_id, RunStarted(recipe=contestant.recipe, team=contestant.team))
    for step, verdict in enumerate(searched, 1):
        candidate = Candidate(source=f"{task} {contestant.recipe} {seed} {step}")
        store.append_event(run_id, StepStarted(step=step, mode="optimize", base=None))
        evaluation = fake_evaluation(candidate, work, verdict)
        store.append_event(
            run_id, CandidateEvaluated(step=step, candidate=candidate.id, evaluation=evaluation)
        )
    if not is_finished:
        return run_id
    winner = Candidate(source=f"{task} {contestant.recipe} {seed} winner")
    evaluation = fake_evaluation(winner, work, final or 1.0, final=True)
    store.append_event(
        run_id,
        RunFinished(
            reason="budget",
            winner=None if final is None else winner.id,
            evaluation=evaluation,
            spent=Spent(evaluations=len(searched), seconds=10.0),
            answers=answers or {},
        ),
    )
    store.set_state(run_id, RunState.FINISHED)
    return run_id


def played(store: Store) -> list[Played]:
    runs = (played_run(store, record) for record in store.iter_runs("x"))
    return [run for run in runs if run is not None]


def made_up(task: str, contestant: Contestant, speedup: float | None, *, seed: int = 0) -> Played:
    interval = None if speedup is None else RatioInterval(speedup, speedup * 0.98, speedup * 1.02)
    return Played(
        run_id="r", task=task, task_id=task, contestant=contestant, seed=seed,
        ending=Ending.FAILED if speedup is None else Ending.FASTER, speedup=interval,
        detail="no memory" if speedup is None else "", best_so_far=(speedup,),
        model_calls=0, tokens=0, usd=0.0, seconds=1.0,
    )  # fmt: skip


def test_a_run_is_read_with_its_best_so_far_and_what_it_delivered(store: Store) -> None:
    add_run(store, "t", A, [Status.CRASHED, 2.0, 1.5, 4.0], 3.5)
    (run,) = played(store)
    assert run.best_so_far == (None, 2.0, 2.0, 4.0)
    assert [run.height(n) for n in (0, 1, 2, 4, 9)] == [1.0, 1.0, 2.0, 4.0, 4.0]
    assert run.speedup is not None and run.speedup.ratio == pytest.approx(3.5)
    assert (run.ending, run.evaluations, run.seconds, run.usd) == (Ending.FASTER, 4, 10.0, 0.0)


def test_calls_of_torch_in_another_order_are_no_kernel(store: Store) -> None:
    run_id = add_run(store, "class ModelNew: ...", A, [2.0], 2.0)
    winner = Candidate(source=f"class ModelNew: ... {A.recipe} 0 winner")
    store.add_candidates(run_id, [winner])
    assert [run.ending for run in played(store)] == [Ending.REARRANGED]


def test_an_unended_run_is_no_result_and_a_failed_one_is_a_failure(store: Store) -> None:
    add_run(store, "t", A, [2.0], None, is_finished=False)
    assert played(store) == []
    run_id = next(store.iter_runs()).run_id
    store.set_state(run_id, RunState.FAILED, failure="no memory")
    (run,) = played(store)
    assert (run.is_success, run.detail, run.speedup, run.seconds) == (False, "no memory", None, None)


def test_a_run_whose_every_call_failed_is_no_success(store: Store) -> None:
    add_run(store, "t", A, [], None, answers={"rate_limited": 3, "timed_out": 2})
    add_run(store, "u", A, [], None, answers={"rate_limited": 3, "no_code": 1})
    down, silly = played(store)
    assert not down.is_success and "3 rate_limited, 2 timed_out" in down.detail
    assert silly.is_success


def test_a_call_of_unknown_price_makes_the_costs_unknown(store: Store) -> None:
    run_id = add_run(store, "t", A, [2.0], 2.0)
    call = ModelCall(
        key="k", role="coder", model="m:n", request="[]", response=None, outcome=CallOutcome.OK, usd=None
    )
    store.add_model_call(run_id, call)
    comparison = compare_runs(played(store), [A])
    assert comparison.standings[0].usd is None
    assert cost_cells(comparison.standings[0])[-2] == NOT_MEASURED


def two_tasks(store: Store) -> Comparison:
    add_run(store, "one", A, [2.0, 4.0], 4.0)
    add_run(store, "one", B, [1.0, Status.CRASHED], None)
    add_run(store, "two", A, [Status.CRASHED, 1.0], None)
    add_run(store, "two", B, [1.0, 9.0], 9.0)
    return compare_runs(played(store), [A, B], horizon=2)


def test_shares_and_means_by_hand(store: Store) -> None:
    first, second = two_tasks(store).standings
    assert (first.success, first.faster, first.fast_p) == (1.0, 0.5, {"1": 0.5, "1.5": 0.5, "2": 0.5})
    assert first.geomean is not None and first.geomean.value == pytest.approx(2.0)
    assert second.geomean is not None and second.geomean.value == pytest.approx(3.0)
    assert first.median is not None and first.median.value == pytest.approx(2.0)
    assert (first.evaluations, first.seconds, first.n_runs) == (2, 10.0, 2)


def test_curve_and_area_by_hand(store: Store) -> None:
    first, second = two_tasks(store).standings
    assert first.curve == pytest.approx((1.0, math.sqrt(2.0), 2.0))
    assert second.curve == pytest.approx((1.0, 1.0, 3.0))
    # Over two evaluations and two tasks: (2 * 4 * 1 * 1) ** (1/4) and (1 * 1 * 1 * 9) ** (1/4).
    assert first.area is not None and first.area.value == pytest.approx(8 ** (1 / 4))
    assert second.area is not None and second.area.value == pytest.approx(9 ** (1 / 4))


def test_a_pair_is_the_ratio_on_the_same_tasks(store: Store) -> None:
    (pair,) = two_tasks(store).pairs
    assert (pair.first, pair.second, pair.n_tasks, pair.verdict) == ("a", "b", 2, "too few tasks")
    assert pair.final is not None and pair.final.value == pytest.approx(2 / 3)
    assert pair.final.low == pytest.approx(1 / 9) and pair.final.high == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.2] * MIN_PAIRED, "better"),
        ([0.8] * MIN_PAIRED, "worse"),
        ([0.5, 2.0] * MIN_PAIRED, "no significant difference"),
        ([1.0] * MIN_PAIRED, "no significant difference"),
        ([1.2] * (MIN_PAIRED - 1), "too few tasks"),
    ],
)
def test_the_verdict_on_a_pair_is_its_interval(ratios: list[float], verdict: str) -> None:
    tasks = [f"t{i}" for i in range(len(ratios))]
    mine = [made_up(task, A, 2.0 * ratio) for task, ratio in zip(tasks, ratios, strict=True)]
    theirs = [made_up(task, B, 2.0) for task in tasks]
    (pair,) = compare_runs([*mine, *theirs], [A, B]).pairs
    assert pair.verdict == verdict


def test_only_cells_that_everyone_has_ended_are_counted() -> None:
    runs = [made_up("t", A, 2.0), made_up("t", B, 3.0), made_up("u", A, 9.0), made_up("t", A, 5.0, seed=1)]
    comparison = compare_runs(runs, [A, B])
    assert (comparison.n_cells, comparison.n_open, [line.task for line in comparison.tasks]) == (1, 2, ["t"])
    assert comparison.standings[0].geomean is not None
    assert comparison.standings[0].geomean.value == pytest.approx(2.0)


def test_seeds_of_a_task_count_as_one_task() -> None:
    runs = [made_up("t", A, s, seed=i) for i, s in enumerate((1.0, 4.0, 2.0))] + [made_up("u", A, 8.0)]
    (standing,) = compare_runs(runs, [A]).standings
    assert (standing.n_tasks, standing.n_runs) == (2, 4)
    assert standing.geomean is not None and standing.geomean.value == pytest.approx(4.0)
    assert standing.fast_p["1"] == pytest.approx((2 / 3 + 1) / 2)


def test_a_failed_run_counts_against_success_and_fast_p_and_has_no_speedup() -> None:
    comparison = compare_runs([made_up("t", A, None), made_up("u", A, 4.0)], [A])
    (standing,) = comparison.standings
    assert (standing.success, standing.fast_p["2"]) == (0.5, 0.5)
    assert standing.geomean is not None and standing.geomean.value == pytest.approx(4.0)
    assert [(f.task, f.name) for f in comparison.failures] == [("t", "a")]
    assert comparison.tasks[0].speedups == {"a": None}


def test_fast_p_wants_the_whole_interval_above() -> None:
    unsure = made_up("t", A, 1.5).model_copy(update={"speedup": RatioInterval(1.6, 1.49, 1.7)})
    (standing,) = compare_runs([unsure], [A]).standings
    assert standing.fast_p == {"1": 1.0, "1.5": 0.0, "2": 0.0}


def test_where_nothing_ran_there_are_no_numbers() -> None:
    comparison = compare_runs([], [A, B], horizon=4)
    standing = comparison.standings[0]
    assert (standing.success, standing.geomean, standing.area, standing.curve) == (None, None, None, ())
    assert NOT_MEASURED in cost_cells(standing)
    assert comparison.pairs[0].final is None
    assert comparison_picture("empty", comparison).startswith("<svg")


def test_teams_are_named_where_they_differ() -> None:
    other = A.model_copy(update={"team": "llm"})
    runs = [made_up("t", A, 2.0), made_up("t", other, 3.0)]
    assert [s.name for s in compare_runs(runs, [A, other]).standings] == ["a / expert", "a / llm"]


@settings(max_examples=30)
@given(st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=30), st.sampled_from(["mean", "median"]))
def test_estimates_are_reproducible_and_within_the_extremes(logs: list[float], middle: str) -> None:
    first = estimate(logs, middle)  # type: ignore[arg-type]
    assert first is not None and first == estimate(logs, middle)  # type: ignore[arg-type]
    assert math.exp(min(logs)) * 0.999 <= first.low <= first.high <= math.exp(max(logs)) * 1.001


def test_an_estimate_of_nothing_is_none_and_many_tasks_narrow_it() -> None:
    assert estimate([]) is None
    few, many = estimate([0.0, 1.0] * 4), estimate([0.0, 1.0] * 40)
    assert few is not None and many is not None
    assert many.high - many.low < few.high - few.low


def test_markdown(store: Store, request: pytest.FixtureRequest) -> None:
    comparison = two_tasks(store)
    failed = compare_runs([*played(store), made_up("bad|task", A, None), made_up("bad|task", B, 2.0)], [A, B])
    assert comparison.n_cells == 2
    text = comparison_markdown(
        "example",
        failed,
        Conditions(budget=Budget(evaluations=2, usd=1.5), measurements="reused"),
        date="2026-11-21 12:00 UTC",
        command="kernelwright compare --recipes a,b",
        environment={"processor": "Example CPU", "counters": None},
        picture="comparison.svg",
    )
    check_golden(GOLDEN / "comparison.md", text, request)


def test_picture(store: Store, request: pytest.FixtureRequest) -> None:
    check_golden(GOLDEN / "comparison.svg", comparison_picture("example", two_tasks(store)) + "\n", request)

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.golden import check_golden
from lab.sample_run import COMPILE_MS, EAGER_MS, FLOOR, StubStore, make_store

from kernelwright.core.blocks import BlockShare, Composition
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Check, Status
from kernelwright.core.events import LoweringGaveUp, ModelTakenApart, RunFinished, TaskPrepared
from kernelwright.report.benchpicture import bench_picture
from kernelwright.report.markdown import MIN_TASKS, bench_markdown, summary_cells
from kernelwright.report.measures import RatioInterval
from kernelwright.report.story import tell
from kernelwright.report.tables import (
    COLLAPSED_FROM,
    BenchRow,
    Ending,
    bootstrap_geomean,
    fast_p,
    row_from_story,
    spread,
    summaries,
    summarise,
)

GOLDEN = Path(__file__).parent / "golden"


def row_of(
    store: StubStore,
    task: str,
    category: str = "pointwise",
    failure: str | None = None,
    winner: Candidate | None = None,
) -> BenchRow:
    return row_from_story(
        tell(store.events),
        task=task,
        task_id=task,
        category=category,
        group="main",
        run_id="r0001",
        failure=failure,
        winner=winner,
    )


def rows() -> list[BenchRow]:
    return [
        row_of(make_store(), "fused_chain"),
        row_of(make_store(has_winner=False), "plain_matmul", "matmul"),
        row_of(make_store(is_finished=False), "broken|task", "matmul", failure="worker died (signal 9)"),
    ]


def test_a_delivered_kernel_counts_with_its_final_figures() -> None:
    row = row_of(make_store(), "t")
    assert row.ending is Ending.FASTER
    assert row.speedup_eager is not None and row.speedup_eager.ratio == pytest.approx(6.0)
    assert row.floor_fraction == pytest.approx(0.75)
    assert (row.evaluations, row.seconds) == (4, 23.4)


def test_an_unchanged_module_is_a_success_at_one_over_eager_and_at_eagers_place_over_compile() -> None:
    row = row_of(make_store(has_winner=False), "t")
    assert row.is_success and row.ending is Ending.UNCHANGED
    assert row.speedup_eager == RatioInterval(1.0, 1.0, 1.0)
    assert row.speedup_compile is not None
    assert row.speedup_compile.ratio == pytest.approx(COMPILE_MS / EAGER_MS)
    assert row.floor_fraction == pytest.approx(FLOOR.ms / EAGER_MS)


def test_an_unchanged_module_says_why_its_last_finalist_was_refused() -> None:
    store = make_store(has_winner=False)
    *events, finished = store.events
    assert isinstance(finished, RunFinished) and finished.evaluation is not None
    refused = {"status": Status.REJECTED, "check": Check.MEMORY, "detail": "1.5 times the memory"}
    evaluation = finished.evaluation.model_copy(update=refused)
    told = [*events, finished.model_copy(update={"evaluation": evaluation})]
    row = row_of(StubStore(store.record, told), "t")
    assert row.ending is Ending.UNCHANGED and "1.5 times the memory" in row.detail


@pytest.mark.parametrize("failure", [None, "no memory"])
def test_a_run_that_did_not_end_is_a_failure(failure: str | None) -> None:
    row = row_of(make_store(is_finished=False), "t", failure=failure)
    assert not row.is_success
    assert row.speedup_eager is None
    assert row.detail == (failure or "not finished")


def test_a_compiler_that_gave_up_has_a_column_and_its_reason_below_the_table() -> None:
    store = make_store(has_winner=False)
    events = [*store.events, LoweringGaveUp(step=0, workload="w", reason="too large")]
    row = row_from_story(tell(events), task="t", task_id="t", category="c", group="main", run_id="r")
    assert row.compiler == "gave up on w: too large"
    text = bench_markdown("n", [row], [], date="d", command="c", environment={})
    assert "| gave up |" in text and "- t: gave up on w: too large" in text


def test_a_row_survives_json_with_its_intervals_named() -> None:
    row = row_of(make_store(), "t")
    assert '"speedup_eager":{"ratio":6.0' in row.model_dump_json().replace("5.999999999999999", "6.0")
    assert BenchRow.model_validate_json(row.model_dump_json()) == row


def test_further_baselines_have_columns_and_geomeans_of_their_own() -> None:
    (over,) = (row_of(make_store(), "t").speedup_compile,)
    assert over is not None
    measured = [row.model_copy(update={"speedups": {"eager_tf32": over}}) for row in rows()[:1]]
    (summary,) = summaries(measured)
    assert summary.over["eager_tf32"].geomean == pytest.approx(over.ratio)
    text = bench_markdown("b", measured, [summary], date="d", command="c", environment={})
    assert "| over eager_tf32 | over the fastest |" in text
    assert "| geomean / eager_tf32 | geomean / the fastest |" in text
    assert BenchRow.model_validate_json(measured[0].model_dump_json()) == measured[0]


def test_what_is_delivered_is_held_against_the_fastest_baseline_of_its_task() -> None:
    row = row_of(make_store(), "t")
    assert row.speedup_compile is not None
    assert row.over_best == ("torch_compile", row.speedup_compile)
    peers = {"onnxruntime": RatioInterval(1.2, 1.1, 1.3), "openvino": RatioInterval(0.9, 0.8, 1.0)}
    beaten = row.model_copy(update={"speedups": peers})
    assert beaten.over_best == ("openvino", peers["openvino"])
    slower = {"onnxruntime": RatioInterval(9.0, 8.0, 10.0)}
    first = beaten.model_copy(update={"speedups": slower, "speedup_compile": None})
    assert first.over_best == ("eager", first.speedup_eager)
    alone = first.model_copy(update={"speedups": {}})
    assert alone.over_best is None
    best = summarise("all", [beaten, alone]).best
    assert best is not None and (best.n, best.geomean) == (1, pytest.approx(0.9))


def test_a_baseline_without_a_figure_stands_below_the_table_with_its_reason() -> None:
    row = row_of(make_store(), "t").model_copy(update={"missing": {"openvino": "output 0 differs"}})
    text = bench_markdown("n", [row], [], date="d", command="c", environment={})
    assert "- t: openvino: output 0 differs" in text


def test_fast_p_is_strict_and_counts_failed_tasks() -> None:
    assert fast_p([1.0, 1.6, 3.0], n_tasks=4) == {"0": 0.75, "0.8": 0.75, "1": 0.5, "1.5": 0.5, "2": 0.25}


def test_a_summary_names_what_was_delivered_slower() -> None:
    slow = row_of(make_store(), "t").model_copy(update={"speedup_eager": RatioInterval(0.9, 0.85, 0.95)})
    unsure = slow.model_copy(update={"speedup_eager": RatioInterval(0.99, 0.97, 1.01)})
    assert summarise("all", [slow, unsure]).n_slower == 1


def test_categories_are_summed_up_beneath_their_group() -> None:
    held_out = rows()[0].model_copy(update={"group": "held-out"})
    assert [s.name for s in summaries([*rows(), held_out])] == ["main", "held-out", "pointwise", "matmul"]


@given(st.lists(st.floats(0.1, 50.0), min_size=1, max_size=40))
def test_bootstrap_interval_is_reproducible_and_within_the_extremes(ratios: list[float]) -> None:
    low, high = bootstrap_geomean(ratios, resamples=60)
    assert (low, high) == bootstrap_geomean(ratios, resamples=60)
    assert min(ratios) * 0.999999 <= low <= high <= max(ratios) * 1.000001


def test_bootstrap_interval_narrows_with_more_tasks() -> None:
    few, many = bootstrap_geomean([1.0, 4.0] * 4), bootstrap_geomean([1.0, 4.0] * 60)
    assert many[1] - many[0] < few[1] - few[0]
    assert few[0] < 2.0 < few[1]


def test_an_interval_over_few_tasks_is_withheld() -> None:
    (row, *_) = rows()
    few, enough = (
        [row.model_copy(update={"task": f"t{i}"}) for i in range(n)] for n in (MIN_TASKS - 1, MIN_TASKS)
    )
    assert "[" not in "".join(summary_cells(summarise("few", few)))
    assert "[" in "".join(summary_cells(summarise("enough", enough)))


def test_spread_of_nothing_is_none() -> None:
    assert spread([]) is None
    assert summarise("empty", []).eager is None


def test_markdown_table(request: pytest.FixtureRequest) -> None:
    text = bench_markdown(
        "example",
        rows(),
        summaries(rows()),
        date="2026-11-20 12:00 UTC",
        command="kernelwright bench suite --name example",
        environment={"processor": "Example CPU", "torch": "2.13.0", "counters": None},
        picture="results.svg",
    )
    check_golden(GOLDEN / "bench.md", text, request)


def test_picture_has_a_bar_for_each_success_and_a_word_for_each_failure() -> None:
    markup = bench_picture("example", rows())
    assert markup.count("<rect") == 2
    assert "failed: worker died" in markup


def taken_apart(kinds: tuple[int, ...]) -> StubStore:
    """Return a run whose winner is a network put together with these kinds of kernels."""
    store = make_store()
    *events, finished = store.events
    assert isinstance(finished, RunFinished) and finished.winner is not None
    way = Composition(candidate=finished.winner, kinds=kinds, is_compiled=True)
    block = BlockShare(name="Block", paths=("layers.0", "layers.1"), before_ms=1.0, share=0.5)
    apart = ModelTakenApart(before_ms=2.0, after_ms=1.0, blocks=(block,), compositions=(way,))
    return StubStore(store.record, [*events, apart, finished])


def test_only_a_generated_kernel_is_a_success_and_networks_are_counted_apart() -> None:
    with_kernel, alone = (row_of(taken_apart(kinds), "net") for kinds in ((0,), ()))
    assert (with_kernel.ending, alone.ending) == (Ending.FASTER, Ending.COMPILED)
    assert alone.is_success and alone.is_apart and alone.speedup_eager == with_kernel.speedup_eager
    summary = summarise("all", [*rows(), with_kernel, alone])
    assert (summary.n_faster, summary.n_compiled, summary.n_unchanged) == (2, 1, 1)
    assert (summary.n_apart, summary.n_apart_faster) == (2, 1)
    text = bench_markdown("n", [alone], [summary], date="d", command="c", environment={})
    assert "| all | 2 of 5 | 1 | 0 | 1 | 1 |" in text
    assert "| networks taken apart |" in text and "| 1 of 2 with a kernel |" in text


@pytest.mark.parametrize(
    ("source", "ending"),
    [
        ("class ModelNew: ...", Ending.REARRANGED),
        ("class ModelNew: CPP_SOURCE = 'int x;'", Ending.FASTER),
    ],
)
def test_calls_of_torch_in_another_order_are_no_kernel(source: str, ending: Ending) -> None:
    row = row_of(make_store(), "t", winner=Candidate(source=source))
    assert row.ending is ending and row.is_success
    assert summarise("all", [row]).n_rearranged == (ending is Ending.REARRANGED)


def test_tasks_that_algebra_collapses_are_left_out_of_a_second_geomean() -> None:
    plain, *_ = rows()
    collapsed = plain.model_copy(
        update={"algebra_gain": COLLAPSED_FROM, "speedup_eager": RatioInterval(96.0, 95.0, 97.0)}
    )
    halfway = plain.model_copy(update={"algebra_gain": 1.5})
    summary = summarise("all", [plain, halfway, collapsed])
    assert summary.n_collapsed == 1 and summary.eager is not None and summary.plain is not None
    assert summary.plain.geomean == pytest.approx(6.0) and summary.eager.geomean > 12.0
    assert summary.plain.low <= summary.plain.geomean <= summary.plain.high
    text = bench_markdown("n", [collapsed], [summary], date="d", command="c", environment={})
    assert "| algebra collapses | geomean / eager without these |" in text and "| 1 | 6.00x |" in text
    assert summarise("all", [plain]).plain is None


def test_what_algebra_leaves_is_taken_from_the_run() -> None:
    store = make_store()
    told = [
        event.model_copy(update={"algebra_gain": 64.0}) if isinstance(event, TaskPrepared) else event
        for event in store.events
    ]
    assert row_of(StubStore(store.record, told), "t").is_collapsed
    assert not row_of(store, "t").is_collapsed

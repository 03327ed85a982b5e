"""What a run prints as it happens where there is no terminal: a line for each thing that ended."""

from io import StringIO

import pytest
from lab.sample_run import make_store
from rich.console import Console

from kernelwright.core.budget import Budget, Spent
from kernelwright.core.events import Event, RunFinished, TaskPrepared
from kernelwright.report.progress import LiveProgress, PlainProgress, SilentProgress, show_run

EIGHT = Budget(evaluations=8)


def printed(events: list[Event], *, width: int = 60) -> list[str]:
    """Return the lines that these events lead to."""
    file = StringIO()
    with PlainProgress(Console(file=file, width=width), "softplus_scale") as progress:
        for event in events:
            progress.add(event)
    return file.getvalue().splitlines()


def test_every_step_has_one_line_with_its_result() -> None:
    lines = printed(make_store().events)
    assert lines[0] == "softplus_scale: eager 9.6 ms, floor 1.2 ms (memory)"
    assert [line.split()[0] for line in lines[1:-1]] == ["1", "2", "3", "4", "5"]
    seed, fused, broken, repaired, final = lines[1:-1]
    assert "seed" in seed and "(best so far)" in seed
    assert "fuse-pointwise @ k0: 5.93x [5.69, 6.22] (best so far; 1 already tried)" in fused
    assert "compile error" in broken and "'k' was not declared in this scope" in broken
    assert "repair" in repaired and "5.65x" in repaired
    assert "final" in final and "6.00x" in final
    assert lines[-1] == "search ended: every move that applies to the fastest candidate was tried"


def test_no_control_code_is_printed_and_no_line_is_wrapped() -> None:
    lines = printed(make_store().events, width=20)
    assert "\x1b" not in "".join(lines) and "\r" not in "".join(lines)
    assert len(lines) == len(printed(make_store().events, width=200))


def test_a_move_that_could_not_be_carried_out_leaves_no_line() -> None:
    assert not [line for line in printed(make_store().events) if "streaming-stores @" in line]


def test_a_step_is_told_when_the_next_one_begins_and_the_last_one_at_the_end() -> None:
    events = make_store(is_finished=False).events
    file = StringIO()
    with PlainProgress(Console(file=file), "t") as progress:
        for event in events[:8]:
            progress.add(event)
        assert len(file.getvalue().splitlines()) == 2
    whole = printed(events)
    assert "5.65x" in whole[-1], "what an interrupted run measured last is not lost"


def test_an_interruption_midway_repeats_nothing() -> None:
    events = make_store(is_finished=False).events
    assert len(printed(events[:-1])) == len(printed(events[:-3])) == 4


def test_a_module_that_is_not_captured_says_why() -> None:
    prepared = TaskPrepared(
        floors=(None,), capture_error="data-dependent\ncontrol flow", baselines_ms={"default": 2.0}
    )
    ended = RunFinished(
        reason="data-dependent\ncontrol flow", winner=None, evaluation=None, spent=Spent(evaluations=0)
    )
    lines = printed([prepared, ended])
    assert lines == [
        "softplus_scale: eager 2 ms, not captured: data-dependent control flow",
        "search ended: data-dependent control flow",
    ]


def test_names_in_brackets_are_no_markup() -> None:
    prepared = TaskPrepared(floors=(), capture_error="[bold]x[/bold]", baselines_ms={"default": 2.0})
    assert "[bold]x[/bold]" in printed([prepared])[0]


def test_without_a_terminal_progress_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(show_run("t", progress=True), PlainProgress)
    assert isinstance(show_run("t"), SilentProgress), "nobody looks"
    assert isinstance(show_run("t", progress=False), SilentProgress)


def shown_live(width: int, height: int = 24, budget: Budget = EIGHT) -> str:
    """Return what a live display looks like before the end, on a terminal of this size."""
    console = Console(width=width, height=height, record=True, force_terminal=True, file=StringIO())
    progress = LiveProgress(console, "softplus_scale", budget)
    for event in make_store(is_finished=False).events[:-1]:
        progress.add(event)
    console.print(progress.render())
    return console.export_text()


def test_a_narrow_terminal_keeps_the_interval_the_best_and_how_far_the_run_is() -> None:
    text = shown_live(80)
    assert "5.93x [5.69, 6.22]" in text and " best " in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert " of 8 evaluations, " in text and " in all" in text
    assert "fuse-pointwise" in text
    assert "5.93x [5.69, 6.22]" in shown_live(50), "a move is cut before a result is"
    assert "already tried" in shown_live(160) and "already tried" not in shown_live(60)


def test_it_says_how_long_the_search_may_take_once_its_pace_is_known() -> None:
    events = make_store().events
    assert "left before the final" in shown_live(80), "of 8 evaluations, 4 have ended"
    console = Console(width=80, record=True, force_terminal=True, file=StringIO())
    unlimited, began = LiveProgress(console, "t"), LiveProgress(console, "t", EIGHT)
    for event in events[:-3]:
        unlimited.add(event)
    for event in events[:3]:
        began.add(event)
    for progress in (unlimited, began):
        console.print(progress.render())
    assert "left before" not in console.export_text(), "no limit, or nothing measured yet: nothing to go by"
    began = LiveProgress(console, "t", EIGHT)
    for event in events[:-1]:
        began.add(event)
    console.print(began.render())
    assert "the final is under way" in console.export_text()


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (Budget(seconds=100.0), "at most 1 min 40 s left with the final"),
        (Budget(evaluations=8, seconds=0.0), "at most 0.0 s left with the final"),
        (Budget(evaluations=8, seconds=1000.0), "left before the final"),
    ],
)
def test_the_seconds_that_were_granted_bound_the_time_left(budget: Budget, says: str) -> None:
    assert says in shown_live(80, budget=budget)

"""The pages of a bench and of a comparison: whole, self-contained, and no text of others acts in them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape

from lab.sample_run import make_store

from kernelwright.core.budget import Budget
from kernelwright.report.comparison import Conditions, compare_runs
from kernelwright.report.judged import differences, shared_facts
from kernelwright.report.measures import RatioInterval
from kernelwright.report.played import Contestant, Played
from kernelwright.report.results import BenchResult, ComparisonResult
from kernelwright.report.story import tell
from kernelwright.report.tables import BenchRow, Ending, row_from_story

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"
A, B = Contestant(recipe="a", team="expert"), Contestant(recipe="b", team="expert")


def row(task: str, **changed: object) -> BenchRow:
    made = row_from_story(
        tell(make_store().events), task=task, task_id=task, category="c", group="main", run_id="r"
    )
    return made.model_copy(update=changed)


def bench(*rows: BenchRow, title: str = "trial", left: tuple[str, ...] = ()) -> BenchResult:
    return BenchResult(title, rows, left, f"kernelwright bench --name {title}", {"processor": "A CPU"})


def played(task: str, contestant: Contestant, speedup: float | None) -> Played:
    return Played(
        run_id="r", task=task, task_id=task, contestant=contestant, seed=0,
        ending=Ending.FAILED if speedup is None else Ending.FASTER,
        speedup=None if speedup is None else RatioInterval(speedup, speedup * 0.9, speedup * 1.1),
        detail=HOSTILE if speedup is None else "", best_so_far=(speedup,), model_calls=0, tokens=0, usd=0.0,
        seconds=1.0,
    )  # fmt: skip


def comparison(*runs: Played, contestants: Sequence[Contestant] = (A, B)) -> ComparisonResult:
    compared, conditions = compare_runs(runs, contestants), Conditions(budget=Budget(evaluations=2))
    return ComparisonResult("trial", runs, compared, conditions, "kernelwright compare", {})


def cells(page: str) -> set[str]:
    return {unescape(cell) for cell in re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", page)}


def test_a_bench_has_every_figure_of_its_tables_on_its_page() -> None:
    result = bench(row("fused"), row("other", group="held-out"), left=("later",))
    page = result.files()["results.html"]
    assert {cell for table in result.tables() for line in table.rows for cell in line} <= cells(page)
    assert "2 of 2 tasks are faster" in page and "Not begun: later." in page
    assert page.count("<g><text") == 2 and "kernelwright bench --name trial" in page


def test_the_sums_of_a_bench_stand_below_each_other_and_categories_have_the_main_ones() -> None:
    _, sums, parts = bench(row("fused"), row("other", category="d")).tables()
    assert ["generated kernel", "2 of 2"] in [list(line) for line in sums.rows]
    assert [line[0] for line in parts.rows] == ["c", "d"] and len(parts.header) == 4


def test_a_comparison_has_every_figure_of_its_tables_on_its_page() -> None:
    result = comparison(*(played(task, who, 2.0) for task in "tu" for who in (A, B)))
    page = result.files()["comparison.html"]
    assert {cell for table in result.tables() for line in table.rows for cell in line} <= cells(page)
    assert "2 recipes on 2 tasks" in page and "Budget of every run: 2 evaluations." in page


DEVICES = {"n1 cores 0-1": {"torch": "2.14", "cores": 2}, "n2 cores 0-1": {"torch": "2.14", "cores": 4}}


def test_a_bench_over_several_devices_names_all_of_them_and_each_rows() -> None:
    rows = [row(task, device=device) for task, device in zip("ab", DEVICES, strict=True)]
    result = replace(bench(*rows), devices=DEVICES)
    for name in ("results.html", "results.md"):
        text = result.files()[name]
        assert text.count("n1 cores 0-1") == text.count("n2 cores 0-1") == 2
    assert result.tables()[0].header[-1] == "device" and "device" in result.tables()[0].spare
    assert {"n2 cores 0-1", "4"} <= cells(result.files()["results.html"])
    assert bench(row("a", device="n1")).tables()[0].header[-1] != "device"


def test_a_comparison_over_several_devices_names_each_tasks() -> None:
    runs = [
        played(task, who, 2.0).model_copy(update={"device": device})
        for task, device in zip("tu", DEVICES, strict=True)
        for who in (A, B)
    ]
    files = replace(comparison(*runs), devices=DEVICES).files()
    for name in ("comparison.html", "comparison.md"):
        assert files[name].count("n1 cores 0-1") == files[name].count("n2 cores 0-1") == 2


def test_what_devices_share_is_said_once() -> None:
    assert shared_facts(DEVICES) == {"torch": "2.14"} and shared_facts({}) == {}
    table = differences(DEVICES)
    assert table is not None and table.header == ("device", "cores")
    assert differences({"n1": {"cores": 2}}) is None


def test_no_text_of_others_acts_in_a_page_and_nothing_comes_from_elsewhere() -> None:
    rows = (
        row(HOSTILE, compiler=HOSTILE, category=HOSTILE, group=HOSTILE),
        row("t", ending=Ending.FAILED, detail=HOSTILE, speedup_eager=None),
    )
    runs = [played(HOSTILE, who, speedup) for who, speedup in ((A, 2.0), (B, None))]
    pages = [
        bench(*rows, title=HOSTILE, left=(HOSTILE,)).files()["results.html"],
        comparison(*runs).files()["comparison.html"],
    ]
    for page in pages:
        assert "&lt;script&gt;alert" in page and "<script>alert" not in page
        assert "\x1b" not in page and "\u202e" not in page
        links = re.findall(r"""(?:src|href)=["']([^"']+)""", page)
        assert all(link.startswith(("#", "data:,")) for link in links)
        assert "@import" not in page and "url(" not in page


def test_where_nothing_ended_there_is_a_page_all_the_same() -> None:
    assert "0 of 0 tasks are faster" in bench(left=("t",)).files()["results.html"]
    assert "2 recipes on 0 tasks" in comparison().files()["comparison.html"]


def test_a_picture_alone_brings_its_colours_and_in_a_page_it_takes_the_pages() -> None:
    files = bench(row("fused")).files()
    assert "prefers-color-scheme: dark" in files["results.svg"] and files["results.svg"].count("<style") == 1
    assert files["results.html"].count("<style") == 1

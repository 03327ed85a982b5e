"""The report in a real browser: nothing fetched, nothing complained of, readable on a phone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.sample_run import make_store
from tests.browsing import chromium, is_wider_than_the_screen, watched
from tests.report.test_inspections import FOUND
from tests.report.test_inspections import page as inspection_page
from tests.report.test_resultspage import A, B, bench, comparison, played, row

from kernelwright.report.html import render_report

pytestmark = [pytest.mark.browser, pytest.mark.slow]
RESULTS = {
    "bench": lambda: bench(row("a task with a rather long name"), row("b")).files()["results.html"],
    "comparison": lambda: comparison(*(played(t, w, 2.0) for t in "tu" for w in (A, B))).files()[
        "comparison.html"
    ],
    "inspection": lambda: inspection_page(*FOUND),
}
TABLES = {"bench": 3, "comparison": 4, "inspection": 1}
SIDEWAYS = """[...document.querySelectorAll("body *")].filter(box => box.scrollWidth > box.clientWidth + 1
    && getComputedStyle(box).overflowX === "auto" && box.tagName !== "PRE")"""
"""Boxes other than of source that are wider inside than outside."""
SIZES = pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(params=[1280, 390], ids=["desktop", "phone"])
def page(browser: Any, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """The made-up run's report, opened from disk, with what the browser said and asked for."""
    file = tmp_path / "report.html"
    file.write_text(render_report(make_store(), "r0001"), encoding="utf-8")
    opened = watched(browser, request.param)
    opened.goto(file.as_uri())
    yield opened
    opened.close()


def test_page_loads_alone_and_without_complaint(page: Any) -> None:
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []


def test_verdict_is_visible_at_once(page: Any) -> None:
    headline = page.locator("#verdict h1")
    assert headline.is_visible()
    assert headline.inner_text() == "Verified, 6.00x faster than eager"
    assert headline.bounding_box()["y"] < 300


def test_nothing_is_wider_than_the_screen(page: Any) -> None:
    assert not is_wider_than_the_screen(page)


def test_what_is_cut_off_has_a_shadow_at_its_edge_and_takes_the_keyboard(page: Any) -> None:
    assert_says_that_it_scrolls(page)
    assert page.evaluate(f"{SIDEWAYS}.some(box => box.querySelector('.lineage'))")


def assert_says_that_it_scrolls(page: Any) -> None:
    shown = f"{SIDEWAYS}.map(box => [box.tabIndex, getComputedStyle(box).backgroundAttachment])"
    assert all(index == 0 and "local" in shadow for index, shadow in page.evaluate(shown))


@pytest.mark.parametrize(
    ("marks", "count"),
    [
        (".curve .mark", 5),
        (".curve .mark.failed", 1),
        (".roofline .mark circle", 4),
        (".bars .bar", 4),
        (".lineage .node", 5),
        (".lineage .node.on-line", 3),
    ],
)
def test_charts_have_their_marks(page: Any, marks: str, count: int) -> None:
    assert page.locator(marks).count() == count


def test_steps_unfold_and_the_theme_switches(page: Any) -> None:
    step = page.locator("details.step.failed").first
    assert not step.locator(".log").is_visible()
    step.locator("summary").click()
    assert "was not declared" in step.locator(".log").inner_text()
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_source_can_be_copied(page: Any) -> None:
    button = page.locator("[data-copy=kernel-source]")
    button.click()
    page.wait_for_function("document.querySelector('[data-copy=kernel-source]').textContent !== 'Copy'")
    assert "class ModelNew" in page.locator("#kernel-source").inner_text()


@SIZES
@pytest.mark.parametrize("kind", RESULTS)
def test_pages_of_results_are_whole_and_fit(browser: Any, tmp_path: Path, kind: str, width: int) -> None:
    file = tmp_path / "results.html"
    file.write_text(RESULTS[kind](), encoding="utf-8")
    page = watched(browser, width)
    page.goto(file.as_uri())
    assert page.complaints == [] and len(page.requests) == 1
    assert not is_wider_than_the_screen(page)
    assert page.locator("svg.chart").count() == 1 and page.locator("table").count() >= TABLES[kind]
    assert_says_that_it_scrolls(page)
    page.close()

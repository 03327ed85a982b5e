"""The report in a real browser: nothing fetched, nothing complained of, readable on a phone."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.sample_run import make_store

from kernelwright.report.html import render_report

pytestmark = pytest.mark.browser
ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine: install the package chromium to check the report in it")
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS.split())
        yield running
        running.close()


@pytest.fixture(params=[1280, 390], ids=["desktop", "phone"])
def page(browser: Any, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """The made-up run's report, opened from disk, with what the browser said and asked for."""
    file = tmp_path / "report.html"
    file.write_text(render_report(make_store(), "r0001"), encoding="utf-8")
    opened = browser.new_page(viewport={"width": request.param, "height": 900})
    opened.complaints, opened.requests = [], []
    opened.on("console", lambda message: opened.complaints.append(message.text))
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.on("request", lambda sent: opened.requests.append(sent.url))
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
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]


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

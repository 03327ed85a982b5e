"""The dashboard in a real browser: every page without a complaint, and pages that follow the store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from lab.sample_run import SPEC, make_store
from tests.browsing import chromium, is_wider_than_the_screen, watched
from tests.dashboard.test_app import TOKEN, served

from kernelwright.core.run import RunState
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture
def begun(tmp_path: Path) -> tuple[Store, str]:
    """The made-up run in a real store, up to its first step."""
    store, sample = open_store(str(tmp_path / "runs.db")), make_store()
    run = store.create_run(SPEC)
    for candidate in sample.iter_candidates("r0001"):
        store.add_candidate(run, candidate)
    for event in sample.events[:7]:
        store.append_event(run, event)
    return store, run


def address(client: httpx.Client) -> str:
    return str(client.base_url).rstrip("/")


@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_every_page_renders_without_a_complaint(browser: Any, begun: tuple[Store, str], width: int) -> None:
    store, run = begun
    child = list(store.iter_candidates(run))[1]
    with served(store) as client:
        page, url = watched(browser, width), address(client)
        for path in (
            "/",
            "/machines",
            f"/runs/{run}",
            f"/runs/{run}/calls",
            f"/runs/{run}/candidates/{child.id}",
        ):
            page.goto(url + path)
            assert page.locator("main").is_visible()
            assert not is_wider_than_the_screen(page), path
        assert page.complaints == []
        assert all(asked.startswith((url, "data:")) for asked in page.requests)
        page.close()


def test_an_open_page_follows_the_run_and_keeps_what_is_unfolded(
    browser: Any, begun: tuple[Store, str]
) -> None:
    store, run = begun
    with served(store) as client:
        page = watched(browser)
        page.goto(address(client) + f"/runs/{run}")
        page.locator(".brand[data-seen]").wait_for()
        step = page.locator("details.step").first
        assert step.get_attribute("open") is not None, "an improvement is shown unfolded"
        step.locator("summary").click()
        assert page.locator("#verdict h1").inner_text() == "The run has not ended"
        for event in make_store().events[7:]:
            store.append_event(run, event)
        store.set_state(run, RunState.FINISHED)
        page.locator("#verdict h1", has_text="Verified").wait_for()
        assert "6.00x" in page.locator("#verdict h1").inner_text() and "6.00x" in page.title()
        assert page.locator("details.step").first.get_attribute("open") is None
        page.locator("#theme").click()
        assert page.locator("html").get_attribute("data-theme") == "dark"
        assert page.complaints == []
        page.close()


def test_a_token_is_asked_for_once_and_stays_out_of_the_address(
    browser: Any, begun: tuple[Store, str]
) -> None:
    store, _ = begun
    with served(store, TOKEN) as client:
        page = watched(browser)
        assert page.goto(address(client)).status == 401
        page.goto(address(client) + f"/?token={TOKEN}")
        assert page.locator("h2").inner_text() == "Runs" and TOKEN not in page.url
        page.locator("tbody a").first.click()
        assert page.locator("#verdict h1").is_visible()
        page.close()

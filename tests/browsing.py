"""A real Chromium for tests of pages, and what it complained of."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a running browser; skips the test where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine: install the package chromium to check pages in it")
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=ARGUMENTS.split())
        try:
            yield running
        finally:
            running.close()


def watched(browser: Any, width: int = 1280) -> Any:
    """Return a page of this width that keeps complaints and the addresses it asked for."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.complaints, page.requests = [], []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda sent: page.requests.append(sent.url))
    return page


def is_wider_than_the_screen(page: Any) -> bool:
    """Tell whether the page as a whole must be moved sideways to be read."""
    return bool(page.evaluate("document.documentElement.scrollWidth") > page.viewport_size["width"])

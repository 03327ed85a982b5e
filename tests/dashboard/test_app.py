"""The dashboard over a real socket: what it shows, whom it admits, that it writes nothing."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from lab.sample_run import SPEC, make_store

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import StoreError
from kernelwright.core.events import CandidateEvaluated, Noted
from kernelwright.core.model_call import CallOutcome, ModelCall
from kernelwright.core.run import RunSpec, RunState
from kernelwright.core.task import Task
from kernelwright.dashboard.app import make_app
from kernelwright.dashboard.changes import Changes
from kernelwright.remote.server import HttpServer, listen, url_of
from kernelwright.report.diff import MAX_LINES
from kernelwright.store.base import Store
from kernelwright.store.lease import Owner
from kernelwright.store.sqlstore import open_store

TOKEN = "a-token-for-tests-only"
HOSTILE = "<script>alert(1)</script>\x1b[31m"


@contextmanager
def served(store: Store, token: str | None = None) -> Iterator[httpx.Client]:
    """Serve the store on a free loopback port and yield a browser without scripts."""
    app = make_app(store, token=token)
    with listen("127.0.0.1", 0) as sock:
        server = HttpServer(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            with httpx.Client(base_url=url_of(sock), timeout=30, follow_redirects=True) as browser:
                yield browser
        finally:
            app.state.stop()
            server.should_exit = True
            thread.join(30)


@pytest.fixture
def written(tmp_path: Path) -> Store:
    """A store with one run in progress, whose every text is hostile."""
    store = open_store(str(tmp_path / "runs.db"))
    run = store.create_run(RunSpec(task=Task(name="t", source=f"x = 1\n# {HOSTILE}\n"), recipe="kernelskill"))
    first = Candidate(source=f"y = 2\n# {HOSTILE}\n")
    store.add_candidate(run, first)
    store.add_candidate(run, Candidate(source=f"y = 3\n# {HOSTILE}\n", parents=(first.id,)))
    request = '[{"parts": [{"part_kind": "user-prompt", "content": "make it <b>fast</b>"}]}]'
    call = ModelCall(
        key="k", role="coder", model="p:m", request=request, response=HOSTILE, outcome=CallOutcome.OK,
        judged=CallOutcome.SEVERAL_BLOCKS, judged_detail="which of <two>",
    )  # fmt: skip
    store.add_model_call(run, call)
    return store


def run_of(store: Store) -> str:
    return next(iter(store.iter_runs())).run_id


@pytest.fixture
def finished(tmp_path: Path) -> tuple[Store, str]:
    """The made-up run in a real store."""
    store, sample = open_store(str(tmp_path / "finished.db")), make_store()
    run = store.create_run(SPEC)
    for candidate in sample.iter_candidates("r0001"):
        store.add_candidate(run, candidate)
    for stored in sample.iter_events("r0001"):
        store.append_event(run, stored.event)
    store.set_state(run, RunState.FINISHED)
    return store, run


def test_a_finished_run_has_its_report_with_links(finished: tuple[Store, str]) -> None:
    store, run = finished
    with served(store) as browser:
        assert "softplus_scale" in browser.get("/").text
        page = browser.get(f"/runs/{run}")
        assert page.status_code == 200 and "Verified, 6.00x faster than eager" in page.text
        assert f'href="/runs/{run}/candidates/' in page.text


def test_a_candidate_is_compared_with_its_parent_and_the_reference(written: Store) -> None:
    run = run_of(written)
    child = list(written.iter_candidates(run))[-1]
    with served(written) as browser:
        page = browser.get(f"/runs/{run}/candidates/{child.id}").text
    assert "Against its parent" in page and "Against the reference" in page
    assert '<span class="removed">-y = 2</span><span class="added">+y = 3</span>' in page


def test_a_very_long_source_is_not_compared(written: Store) -> None:
    run = run_of(written)
    long = Candidate(source="z = 1\n" * (MAX_LINES + 1))
    written.add_candidate(run, long)
    with served(written) as browser:
        assert "Too long to be compared here" in browser.get(f"/runs/{run}/candidates/{long.id}").text


def test_no_text_of_others_acts_in_a_page(written: Store) -> None:
    run = run_of(written)
    child = list(written.iter_candidates(run))[-1]
    with served(written) as browser:
        for path in (
            "/",
            "/machines",
            f"/runs/{run}",
            f"/runs/{run}/calls",
            f"/runs/{run}/candidates/{child.id}",
        ):
            page = browser.get(path)
            assert page.status_code == 200
            assert (
                "<script>alert" not in page.text
                and "<b>fast</b>" not in page.text
                and "\x1b" not in page.text
            )
            assert "script-src 'self' 'sha256-" in page.headers["content-security-policy"]


def test_the_devices_that_judge_now_stand_with_their_machine(finished: tuple[Store, str]) -> None:
    store, run = finished
    last = list(store.iter_events(run, kinds=["candidate_evaluated"]))[-1].event
    assert isinstance(last, CandidateEvaluated)
    judged = last.evaluation.model_copy(update={"device": "box-1234/cpu"})
    store.append_event(run, last.model_copy(update={"evaluation": judged}))
    with served(store) as browser:
        assert "box-1234/cpu" not in browser.get("/machines").text, "nobody is at work"
        store.take_lease(run, Owner.here())
        assert "box-1234/cpu" in browser.get("/machines").text


def test_calls_show_what_was_said(written: Store) -> None:
    with served(written) as browser:
        page = browser.get(f"/runs/{run_of(written)}/calls").text
    assert "make it &lt;b&gt;fast&lt;/b&gt;" in page and "coder" in page
    assert "several blocks, 0 in" in page and "which of &lt;two&gt;" in page


def test_an_open_page_is_told_of_news(written: Store) -> None:
    run = run_of(written)
    with served(written) as browser, browser.stream("GET", "/events", params={"run": run}) as stream:
        marks = (line for line in stream.iter_lines() if line.startswith("data:"))
        first = next(marks)
        written.append_event(run, Noted(step=1, role="selector", text="news"))
        assert next(marks) != first


@pytest.mark.parametrize("path", ["/runs/nowhere", "/events?run=nowhere", "/runs/{run}/candidates/nothing"])
def test_what_is_not_there_is_said(finished: tuple[Store, str], path: str) -> None:
    store, run = finished
    with served(store) as browser:
        assert browser.get(path.format(run=run)).status_code == 404


def test_a_beginning_of_several_runs_is_said(written: Store) -> None:
    run = run_of(written)
    written.create_run(written.get_run(run).spec)
    with served(written) as browser:
        for path in (f"/runs/{run[:3]}", f"/events?run={run[:3]}"):
            page = browser.get(path)
            assert page.status_code == 404 and "begins several run ids" in page.text


def test_a_stream_ends_where_the_store_cannot_be_read(
    written: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.dashboard.changes.LOOK_S", 0.0)
    marks = iter([["one"]])

    def read(limit: int) -> list[str]:
        mark = next(marks, None)
        if mark is None:
            raise StoreError("cannot read the store")
        return mark

    monkeypatch.setattr(written, "run_marks", read)

    async def told() -> list[str]:
        return [text async for text in Changes(written).stream(None)]

    assert len(asyncio.run(told())) == 1


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(written: Store, method: str) -> None:
    with served(written) as browser:
        assert browser.request(method, f"/runs/{run_of(written)}").status_code == 405


def test_a_token_is_brought_once(written: Store) -> None:
    with served(written, TOKEN) as browser:
        assert browser.get("/").status_code == 401
        assert browser.get("/", params={"token": "wrong"}).status_code == 401
        assert browser.get("/", params={"token": TOKEN}).status_code == 200
        assert TOKEN not in str(browser.cookies)
        assert browser.get("/machines").status_code == 200


@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"origin": "http://evil.example"}, {"origin": "null"}]
)
def test_pages_from_elsewhere_are_refused(written: Store, headers: dict[str, str]) -> None:
    with served(written) as browser:
        assert browser.get("/", headers=headers).status_code in (403, 421)

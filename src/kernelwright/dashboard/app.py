"""The pages and who may see them. Nothing that a page can send changes anything."""

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Collection
from functools import cache
from importlib.resources import files
from typing import Any

from kernelwright.core.errors import KernelwrightError, UserError, missing
from kernelwright.dashboard import views
from kernelwright.dashboard.changes import SHOWN_RUNS, Changes
from kernelwright.report.diff import changes
from kernelwright.report.highlight import highlight
from kernelwright.report.html import render_report
from kernelwright.report.page import asset, render
from kernelwright.report.runlist import list_runs
from kernelwright.store.base import Store, find_run

try:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
    from starlette.routing import Route
except ImportError as error:
    raise missing(error, "serve") from error

# after the message about the missing extra
from kernelwright.remote.gate import AccessGate

COOKIE = "kernelwright-dashboard"
LIVE = "live.js"

Page = Callable[[Request], Awaitable[Response]]


def make_app(store: Store, *, token: str | None, hosts: Collection[str] = ()) -> Starlette:
    """Return the application.

    Args:
        store: What is shown; never written.
        token: What a browser must bring once, as ``/?token=TOKEN``; None admits everybody who can connect.
        hosts: Names besides the loopback ones under which this machine may be asked.
    """
    changes = Changes(store)
    pages: dict[str, Page] = {
        "/": lambda request: _html(lambda: overview(store)),
        "/machines": lambda request: _html(
            lambda: _render("machines.html.j2", machines=views.machines(store))
        ),
        "/runs/{run}": lambda request: _html(lambda: _run(store, request)),
        "/runs/{run}/calls": lambda request: _html(lambda: _calls(store, request)),
        "/runs/{run}/candidates/{candidate}": lambda request: _html(lambda: _candidate(store, request)),
        "/events": lambda request: _events(store, changes, request),
        f"/{LIVE}": _script,
    }
    routes = [Route(path, _admitted(page, token), methods=["GET"]) for path, page in pages.items()]
    app = Starlette(routes=routes)
    app.add_middleware(AccessGate, token=None, hosts=hosts)  # names and origins; browsers send no such header
    app.state.stop = changes.stop
    return app


def _admitted(page: Page, token: str | None) -> Page:
    """Return the page for browsers that brought the token, which a cookie then stands for."""

    async def answer(request: Request) -> Response:
        if token is None:
            return await page(request)
        if _same(request.query_params.get("token", ""), token):
            there = RedirectResponse(request.url.path, status_code=303)
            there.set_cookie(COOKIE, _stamp(token), httponly=True, samesite="strict")
            return there
        if not _same(request.cookies.get(COOKIE, ""), _stamp(token)):
            text = "<p>Open the address that kernelwright dashboard printed: it carries the token.</p>"
            return _guarded(HTMLResponse(text, status_code=401))
        return await page(request)

    return answer


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _stamp(token: str) -> str:
    """Return what the cookie holds: not the token itself."""
    return hmac.digest(token.encode(), COOKIE.encode(), "sha256").hex()


async def _html(render: Callable[[], str]) -> Response:
    try:
        return _guarded(HTMLResponse(await run_in_threadpool(render)))
    except KernelwrightError as error:
        page = _render("message.html.j2", message=str(error))
        return _guarded(HTMLResponse(page, status_code=_status(error)))


def _status(error: KernelwrightError) -> int:
    """Tell an address that names nothing in the store from a store that fails."""
    return 404 if isinstance(error, UserError) else 500


def _guarded(response: Response) -> Response:
    """Return the response with a policy: no script but ours, nothing from elsewhere, no frame around it."""
    scripts = f"'self' 'sha256-{_script_hash()}'"
    rules = (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    response.headers["Content-Security-Policy"] = rules
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "no-store"
    return response


@cache
def _script_hash() -> str:
    return base64.b64encode(hashlib.sha256(asset("report.js").encode()).digest()).decode()


async def _script(request: Request) -> Response:
    text = files("kernelwright.dashboard").joinpath("templates", LIVE).read_text(encoding="utf-8")
    return _guarded(Response(text, media_type="text/javascript"))


async def _events(store: Store, changes: Changes, request: Request) -> Response:
    named = request.query_params.get("run")
    try:
        run_id = (await run_in_threadpool(find_run, store, named)).run_id if named else None
    except KernelwrightError as error:
        return _guarded(Response(str(error), status_code=_status(error)))
    return _guarded(StreamingResponse(changes.stream(run_id), media_type="text/event-stream"))


def overview(store: Store) -> str:
    """Return the start page."""
    lines = list_runs(store, limit=SHOWN_RUNS)
    return _render("runs.html.j2", lines=lines, is_all=len(lines) < SHOWN_RUNS)


def _run(store: Store, request: Request) -> str:
    return render_report(store, find_run(store, request.path_params["run"]).run_id, is_live=True)


def _calls(store: Store, request: Request) -> str:
    run_id = find_run(store, request.path_params["run"]).run_id
    return _render("calls.html.j2", run_id=run_id, calls=views.calls(store, run_id))


def _candidate(store: Store, request: Request) -> str:
    run_id = find_run(store, request.path_params["run"]).run_id
    wanted = request.path_params["candidate"]
    run = {candidate.id: candidate for candidate in store.iter_candidates(run_id)}
    candidate = run.get(wanted)
    if candidate is None:
        raise UserError(f"no candidate {wanted!r} in run {run_id}")
    return _render(
        "candidate.html.j2",
        run_id=run_id,
        candidate=candidate,
        source=highlight(candidate.source),
        comparisons=changes(candidate, run, store.get_run(run_id).spec.task.source),
    )


def _render(template: str, **values: Any) -> str:
    return render(template, "kernelwright.dashboard", **values)

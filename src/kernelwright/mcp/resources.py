"""What an agent can read: runs, their reports and kernels, the skills, the pages about the tools."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.core.errors import KernelwrightError, UserError, missing
from kernelwright.core.evidence import METRICS
from kernelwright.report.files import json_text
from kernelwright.settings import Settings

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
except ImportError as error:
    raise missing(error, "mcp") from error

if TYPE_CHECKING:
    from kernelwright.store.base import RunRecord, Store

JSON, MARKDOWN, HTML, PYTHON = "application/json", "text/markdown", "text/html", "text/x-python"
N_RUNS = 100


def add_resources(server: MCPServer[Any], settings: Settings) -> None:
    """Register every resource."""
    _add_runs(server, settings)
    _add_pages(server)


def _add_runs(server: MCPServer[Any], settings: Settings) -> None:
    runs = _StoredRuns(settings)

    @server.resource("kernelwright://runs", name="runs", mime_type=JSON)
    def all_runs() -> str:
        """The newest runs of the store: id, task, recipe, state, result."""
        return runs.listed()

    @server.resource("kernelwright://runs/{run_id}", name="run", mime_type=JSON)
    def run(run_id: str) -> str:
        """How one run ended, and by which plan."""
        return runs.described(run_id)

    @server.resource("kernelwright://runs/{run_id}/kernel", name="kernel", mime_type=PYTHON)
    def kernel(run_id: str) -> str:
        """The kernel that one run delivered."""
        return runs.kernel(run_id)

    @server.resource("kernelwright://runs/{run_id}/report", name="report", mime_type=HTML)
    def report(run_id: str) -> str:
        """One run's report: a self-contained page for people."""
        return runs.report(run_id)


class _StoredRuns:
    """The runs of a store as texts; the store is opened for each question and closed again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def listed(self) -> str:
        # lazy: SQLAlchemy takes a while to load
        from kernelwright.report.runlist import list_runs

        with self._opened() as store:
            return json_text([line.model_dump() for line in list_runs(store, limit=N_RUNS)])

    def described(self, run_id: str) -> str:
        # lazy: as above
        from kernelwright.report.story import tell
        from kernelwright.report.verdict import run_verdict

        with self._opened() as store:
            record = _found(store, run_id)
            story = tell(stored.event for stored in store.iter_events(record.run_id))
            verdict = run_verdict(story, record.failure)
            winner = story.finished.winner if story.finished else None
            plan = store.get_candidate(winner, record.run_id).plan if winner else None
        return json_text(
            {
                "run_id": record.run_id,
                "task": record.spec.task.name,
                "recipe": record.spec.recipe,
                "team": record.spec.team,
                "target": str(record.spec.target),
                "state": record.state,
                "headline": verdict.headline,
                "says": verdict.lines,
                "plan": plan,
            }
        )

    def kernel(self, run_id: str) -> str:
        # lazy: as above
        from kernelwright.report.story import tell

        with self._opened() as store:
            record = _found(store, run_id)
            story = tell(stored.event for stored in store.iter_events(record.run_id))
            winner = story.finished.winner if story.finished else None
            if winner is None:
                raise ResourceNotFoundError(f"run {record.run_id} has delivered no kernel; read its report")
            return store.get_candidate(winner, record.run_id).source

    def report(self, run_id: str) -> str:
        # lazy: loads the templates
        from kernelwright.report.html import render_report

        with self._opened() as store:
            return render_report(store, _found(store, run_id).run_id)

    @contextmanager
    def _opened(self) -> "Iterator[Store]":
        """Open the store; what it or a caller is at fault for becomes an error that an agent can read."""
        # lazy: SQLAlchemy takes a while to load
        from kernelwright.store.reading import open_for_reading

        try:
            with closing(open_for_reading(self._settings.store, must_exist=False)) as store:
                yield store
        except UserError as error:
            raise ResourceNotFoundError(str(error)) from error
        except KernelwrightError as error:
            raise ResourceError(str(error)) from error


def _found(store: "Store", run_id: str) -> "RunRecord":
    record = store.find_run(run_id)
    if record is None:
        raise ResourceNotFoundError(f"no run {run_id!r} in this store; read kernelwright://runs")
    return record


def guide_folder() -> Path:
    """Return the folder of the skill that teaches an agent the loop."""
    return Path(str(resources.files("kernelwright.mcp") / "guide" / "kernelwright"))


def pages() -> dict[str, Path]:
    """Return the pages for agents by name; in a checkout also those for people."""
    own = {path.stem.lower(): path for path in sorted(guide_folder().rglob("*.md"))}
    docs = Path(__file__).parents[3] / "docs"
    return {**{path.stem: path for path in sorted(docs.glob("*.md"))}, **own}


def _add_pages(server: MCPServer[Any]) -> None:
    @server.resource("kernelwright://docs", name="docs", mime_type=JSON)
    def docs() -> str:
        """The names of all pages; kernelwright://docs/NAME has one."""
        return json.dumps(sorted(pages()))

    @server.resource("kernelwright://docs/{page}", name="page", mime_type=MARKDOWN)
    def one_page(page: str) -> str:
        """One page of documentation; `skill` teaches the loop, `plans` and `verdicts` what tools answer."""
        found = pages().get(page)
        if found is None:
            raise ResourceNotFoundError(f"no page {page!r}; there are: {', '.join(sorted(pages()))}")
        return found.read_text(encoding="utf-8")

    @server.resource("kernelwright://evidence", name="evidence", mime_type=JSON)
    def evidence() -> str:
        """What each name of the evidence means, with its unit."""
        return json.dumps({name: f"{m.meaning} ({m.unit or m.kind})" for name, m in METRICS.items()})

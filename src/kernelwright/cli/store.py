"""``kernelwright store``: runs from one store into another."""

from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.cli.options import AsJson, StoreOption
from kernelwright.cli.output import print_json, say, tell
from kernelwright.cli.stores import open_for_reading, open_store
from kernelwright.store.base import find_run

if TYPE_CHECKING:
    from kernelwright.store.base import Store
    from kernelwright.store.copying import CopyReport

app = typer.Typer(help="The store: export runs into another one, import runs from it.", no_args_is_help=True)
Other = Annotated[str, typer.Argument(metavar="OTHER", help="The other store: a file, or a database URL.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--run", metavar="RUN", help="Only this run: its id, or how it begins. Repeatable."),
]


@app.command("export")
def export_runs(other: Other, run: Only = None, store: StoreOption = None, as_json: AsJson = False) -> None:
    """Copy runs, with all that they left to others, into another store; it is made if it is not there."""
    _copy(open_for_reading(store), open_store(other), run, as_json=as_json)


@app.command("import")
def import_runs(other: Other, run: Only = None, store: StoreOption = None, as_json: AsJson = False) -> None:
    """Copy runs, with all that they left to others, from another store; what is there already stays."""
    _copy(open_for_reading(other), open_store(store), run, as_json=as_json)


def _copy(source: "Store", target: "Store", only: list[str] | None, *, as_json: bool) -> None:
    # lazy: SQLAlchemy takes a while to load
    from kernelwright.store.copying import copy_runs
    from kernelwright.store.sqlstore import SqlStore

    if not isinstance(source, SqlStore) or not isinstance(target, SqlStore):
        raise TypeError("a store that is no database")
    ids = None if only is None else [find_run(source, prefix).run_id for prefix in only]
    copied = copy_runs(source, target, ids, lambda done, of: say(f"{done} of {of} runs") if done else None)
    target.close()
    source.close()
    if as_json:
        print_json(copied)
    else:
        tell(_words(copied))


def _words(copied: "CopyReport") -> str:
    lines = [
        f"copied {copied.runs} runs, {copied.outcomes} outcomes, {copied.plans} plans, "
        f"{copied.findings} findings; {copied.unchanged} runs were there already"
    ]
    if copied.carried_on:
        lines.append(f"{copied.carried_on} runs had gone on and are now as they are in the other store")
    if copied.at_work:
        lines.append(f"left out, as a process is at work on them: {', '.join(copied.at_work)}")
    if copied.diverged:
        lines.append(f"left out, as they went on otherwise in the other store: {', '.join(copied.diverged)}")
    return "\n".join(lines)

"""Which tasks a bench is made of."""

from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from kernelwright.core.errors import UserError
from kernelwright.core.task import Task

SUITE = "suite"
"""Word that stands for our own suite."""
MAIN_GROUP = "main"


class BenchTask(NamedTuple):
    """A task with the rows of the tables it counts in."""

    task: Task
    category: str
    group: str


def collect(
    sources: Sequence[str],
    *,
    manifest: Path | None,
    groups: Sequence[str] = (),
    only: str | None,
    limit: int | None,
) -> list[BenchTask]:
    """Return the tasks that the user means, in order.

    Args:
        sources: ``suite``, folders and files; with a manifest, the one folder its paths lie in.
        manifest: YAML list of ``{path, overrides, group}``.
        groups: groups of the manifest to take; none named: all of them.
        only: glob over the tasks' names.
        limit: keep the first so many.

    Raises:
        UserError: nothing is left, or a source is not there.
    """
    found = _from_manifest(manifest, sources, groups) if manifest else _from_sources(sources)
    kept = [entry for entry in found if only is None or fnmatch(entry.task.name, only)]
    if not kept:
        raise UserError(f"no task matches --only {only!r}; {len(found)} were found")
    return kept[:limit]


def _from_manifest(manifest: Path, sources: Sequence[str], groups: Sequence[str]) -> list[BenchTask]:
    # lazy: keeps --help quick
    from kernelwright.tasks.manifest import load_manifest

    if len(sources) != 1 or not Path(sources[0]).is_dir():
        raise UserError(f"--tasks {manifest}: name the one folder its paths lie in, e.g. KernelBench/")
    pairs = load_manifest(manifest, Path(sources[0]), groups=set(groups) or None)
    return [BenchTask(task, category_of(task), group) for group, task in pairs]


def _from_sources(sources: Sequence[str]) -> list[BenchTask]:
    tasks = [task for source in sources or [SUITE] for task in _load(source)]
    return [BenchTask(task, category_of(task), MAIN_GROUP) for task in tasks]


def _load(source: str) -> Sequence[Task]:
    # lazy: keeps --help quick
    from kernelwright.tasks.kernelbench import load_folder, load_task
    from kernelwright.tasks.suite import suite_tasks

    path = Path(source)
    if source == SUITE and not path.exists():
        return suite_tasks()
    if path.is_dir():
        return load_folder(path)
    if not path.exists():
        raise UserError(f"{source}: no such file or folder; name task files, a folder of them, or {SUITE!r}")
    return [load_task(path)]


def category_of(task: Task) -> str:
    """Return the file's own category, else the name of its folder."""
    # lazy: keeps --help quick
    from kernelwright.tasks.kernelbench import task_category

    category = task_category(task)
    return category or (Path(task.path).parent.name if task.path else "") or "other"

"""From the place that a request names to the tasks that are there."""

from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from kernelwright.core.errors import TaskError, UserError
from kernelwright.core.places import SUITE, AsSaved, AsText, AtPath, OfSuite, TaskPlace
from kernelwright.core.task import Mode, Task, TolerancePolicy, Workload
from kernelwright.tasks.kernelbench import load_folder, load_task, parse_task, task_category
from kernelwright.tasks.suite import suite_tasks

MAIN_GROUP = "main"


class BenchTask(NamedTuple):
    """A task with the rows of the tables it counts in."""

    task: Task
    category: str
    group: str


def load_place(
    place: TaskPlace,
    *,
    workloads: Sequence[Workload] = (),
    mode: Mode | None = None,
    tolerance: TolerancePolicy | None = None,
) -> Task:
    """Return the one task that is there; what is given here wins over what the task says itself.

    Raises:
        TaskError: it is not there, or is no task.
    """
    if isinstance(place, AtPath):
        return load_task(Path(place.path), workloads=workloads, mode=mode, tolerance=tolerance)
    if isinstance(place, AsText):
        path = Path(f"{place.name}.py")
        return parse_task(place.source, path, workloads=workloads, mode=mode, tolerance=tolerance)
    found = _of_suite(place.name) if isinstance(place, OfSuite) else _saved(Path(place.path))
    own = {"workloads": tuple(workloads) or None, "mode": mode, "tolerance": tolerance}
    return found.model_copy(update={name: value for name, value in own.items() if value is not None})


def save_task(task: Task) -> AsSaved:
    """Write a task made of a live module beside what was pickled, and return the place; raises TaskError."""
    if task.artifact is None:
        raise TaskError(f"{task.name}: only a live module's task is saved")
    path = Path(task.artifact).with_suffix(f".{task.id}.json")
    try:
        path.write_text(task.model_dump_json(indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise TaskError(f"{task.name}: cannot write {path} ({error.strerror})") from error
    return AsSaved(path=str(path))


def _saved(path: Path) -> Task:
    try:
        return Task.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise TaskError(f"{path}: no saved task can be read there") from error


def _of_suite(name: str) -> Task:
    found = [task for task in suite_tasks() if task.name == name]
    if not found:
        raise TaskError(f"the suite has no task {name!r}; its first is suite:{suite_tasks()[0].name}")
    return found[0]


def collect(
    sources: Sequence[TaskPlace],
    *,
    manifest: Path | None = None,
    groups: Sequence[str] = (),
    only: str | None = None,
    limit: int | None = None,
) -> list[BenchTask]:
    """Return the tasks that are meant, in order.

    Args:
        sources: the suite, folders and files; with a manifest, the one folder its paths lie in.
        manifest: YAML list of ``{path, overrides, group}``.
        groups: groups of the manifest to take; none named: all of them.
        only: glob over the tasks' names, or over ``CATEGORY/NAME``; a task's category is that of its file or
            the name of its folder.
        limit: keep the first so many.

    Raises:
        UserError: nothing is left, or a source is not there.
    """
    found = _from_manifest(manifest, sources, groups) if manifest else _from_sources(sources)
    kept = [entry for entry in found if only is None or _matches(entry, only)]
    if not kept:
        raise UserError(f"no task matches --only {only!r}; {len(found)} were found")
    return kept[:limit]


def _matches(entry: BenchTask, pattern: str) -> bool:
    name = entry.task.name
    return fnmatch(name, pattern) or fnmatch(f"{entry.category}/{name}", pattern)


def _from_manifest(manifest: Path, sources: Sequence[TaskPlace], groups: Sequence[str]) -> list[BenchTask]:
    # lazy: loads torch, which estimates of sizes need
    from kernelwright.tasks.manifest import load_manifest

    if len(sources) != 1 or not Path(str(sources[0])).is_dir():
        raise UserError(f"--tasks {manifest}: name the one folder its paths lie in, e.g. KernelBench/")
    pairs = load_manifest(manifest, Path(str(sources[0])), groups=set(groups) or None)
    return [BenchTask(task, category_of(task), group) for group, task in pairs]


def _from_sources(sources: Sequence[TaskPlace]) -> list[BenchTask]:
    tasks = [task for source in sources or [OfSuite()] for task in _load(source)]
    return [BenchTask(task, category_of(task), MAIN_GROUP) for task in tasks]


def _load(source: TaskPlace) -> Sequence[Task]:
    if source == OfSuite():
        return suite_tasks()
    if not isinstance(source, AtPath):
        return [load_place(source)]
    path = Path(source.path)
    if path.is_dir():
        return load_folder(path)
    if not path.exists():
        raise UserError(f"{source}: no such file or folder; name task files, a folder of them, or {SUITE!r}")
    return [load_task(path)]


def category_of(task: Task) -> str:
    """Return the file's own category, else the name of its folder."""
    category = task_category(task)
    return category or (Path(task.path).parent.name if task.path else "") or "other"

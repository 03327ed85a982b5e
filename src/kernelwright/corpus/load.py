"""Finds the specimens and the tasks they are for."""

from fnmatch import fnmatchcase
from pathlib import Path

from kernelwright.core.errors import UserError
from kernelwright.core.task import Task
from kernelwright.corpus.specimen import Kind, Specimen, parse
from kernelwright.tasks.kernelbench import load_task

HERE = Path(__file__).parent
FOLDERS = {Kind.CHEAT: HERE / "cheats", Kind.HOSTILE: HERE / "hostile"}


def load_specimens(families: tuple[int, ...] = (), only: str = "*") -> tuple[Specimen, ...]:
    """Return the specimens of these families (all: none named) whose name matches, by family, then name.

    Raises:
        UserError: a file's header is not as corpus/README.md says.
    """
    found = [
        parse(path.stem, kind, path.read_text(encoding="utf-8"))
        for kind, folder in FOLDERS.items()
        for path in sorted(folder.glob("*.py"))
        if not path.name.startswith("_") and fnmatchcase(path.stem, only)
    ]
    chosen = [specimen for specimen in found if not families or specimen.family in families]
    return tuple(sorted(chosen, key=lambda specimen: (specimen.kind, specimen.family, specimen.name)))


def load_corpus_task(name: str) -> Task:
    """Return ``tasks/NAME.py``; raises UserError when there is none."""
    path = HERE / "tasks" / f"{name}.py"
    if not path.is_file():
        raise UserError(f"corpus: no task {name!r}; there are {', '.join(task_names())}")
    return load_task(path)


def task_names() -> list[str]:
    """Return the names of the corpus's tasks."""
    return sorted(path.stem for path in (HERE / "tasks").glob("*.py") if not path.name.startswith("_"))


def honest_twin(task: Task) -> str:
    """Return a candidate that does what the task's reference does."""
    return task.source.replace("class Model(", "class ModelNew(")

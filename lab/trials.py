"""Many verdicts of a real referee, written down as they come so that a long list can be carried on."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kernelwright.core.evaluation import Evaluation
from kernelwright.core.frozen import Frozen, content_hash
from kernelwright.core.task import Task
from kernelwright.referee.version import REFEREE_VERSION


class Subject(Protocol):
    """What is judged."""

    @property
    def name(self) -> str:
        """Unique among the list's."""
        ...

    @property
    def task(self) -> Task:
        """What it is for."""
        ...

    @property
    def source(self) -> str:
        """The candidate."""
        ...


class Trial(Frozen):
    """One verdict on one subject."""

    key: str
    """Content hash of task, source and referee: a changed subject is judged anew."""
    name: str
    run: int
    status: str
    stage: str
    check: str | None = None
    """The check that said no, where the evaluation names it."""
    detail: str = ""
    family: str | None = None
    """The family of draws, with the weights, on which it was found."""
    families: tuple[str, ...] = ()
    """Families of draws that it was compared on; a slow reference gets fewer."""
    notes: tuple[str, ...] = ()
    """What the evaluation notes: a replay that was left out, what clocks told of one process and no other."""
    seconds: float = 0.0
    """Seconds in the referee's stages."""

    @property
    def is_verified(self) -> bool:
        """True when every check passed."""
        return self.status == "verified"


def trial_of(subject: Subject, run: int, evaluation: Evaluation) -> Trial:
    """Return what is kept of an evaluation."""
    where = re.search(r" on ([\w, -]+?) inputs", evaluation.detail)
    return Trial(
        key=key_of(subject),
        name=subject.name,
        run=run,
        status=str(evaluation.status),
        stage=str(evaluation.stage),
        check=None if evaluation.check is None else str(evaluation.check),
        detail=evaluation.detail,
        family=where[1] if where else None,
        families=tuple(sorted({error.family for error in evaluation.errors})),
        notes=evaluation.notes,
        seconds=round(sum(evaluation.phases_s.values()), 3),
    )


def key_of(subject: Subject) -> str:
    """Return what a subject is known by to this version of the referee."""
    return content_hash(subject.task.id, subject.source, str(REFEREE_VERSION))


class Journal:
    """Trials in a file, one a line; what was cut off in the middle is left out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[tuple[str, int], Trial] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    trial = Trial.model_validate_json(line)
                except ValueError:
                    continue
                self._found[trial.key, trial.run] = trial
        path.parent.mkdir(parents=True, exist_ok=True)

    def find(self, subject: Subject, run: int) -> Trial | None:
        """Return the verdict on this very source, None when there is none yet."""
        return self._found.get((key_of(subject), run))

    def add(self, trial: Trial) -> None:
        """Write a verdict down; it is on disk when this returns."""
        self._found[trial.key, trial.run] = trial
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(trial.model_dump(mode="json")) + "\n")


def row_line(row: Mapping[str, Any]) -> str:
    """Return a row as a line of a file from which a benchmark is carried on."""
    return json.dumps({**row, "referee": REFEREE_VERSION}) + "\n"


def rows_in(file: Path) -> list[dict[str, Any]]:
    """Return the rows of such a file that this version of the referee made; a line cut short is left out."""
    if not file.exists():
        return []
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
    return [row for row in rows if row.pop("referee", None) == REFEREE_VERSION]


_Subject = TypeVar("_Subject", bound=Subject)


def by_task(subjects: Iterable[_Subject]) -> Iterator[tuple[Task, list[_Subject]]]:
    """Yield neighbours with the same task together: a session is opened once for them."""
    for _, group in groupby(subjects, key=lambda subject: subject.task.id):
        members = list(group)
        yield members[0].task, members

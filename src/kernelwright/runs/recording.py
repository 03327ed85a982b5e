"""Recorded measurements: a recording is looked up before the referee, or used instead of it.

What a candidate's evaluation says does not depend on the policy that proposed it. Served again, it makes
recipes face the same figures and saves the machine's time; served alone, it lets policies be compared where
nothing can be measured. Within a recording the first measurement of a candidate stays, so that reading it
twice gives the same figures twice.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import (
    CandidateEvaluated,
    ComparedWithBase,
    FinalistsTimed,
    ParametersClosed,
    TaskPrepared,
)
from kernelwright.core.finalists import Alternation
from kernelwright.core.frozen import Frozen
from kernelwright.core.machine import Machine, machine_of_environment
from kernelwright.core.roofline import Floor, Peaks
from kernelwright.core.task import Task
from kernelwright.runs.closing import defaults_of
from kernelwright.runs.evaluator import (
    AlternatingSession,
    ClosingSession,
    ComparingSession,
    Evaluator,
    Session,
)
from kernelwright.runs.prepare import Preparation, prepare_on
from kernelwright.store.base import Store
from kernelwright.targets.gpu.facts import GpuFacts
from kernelwright.targets.gpu.machine import accelerator_of, kind_of

FILE_NAME = "recording.jsonl"
"""File name of a recording when only its folder is given."""


class RecordedMachine(Frozen):
    """Where the figures were measured: floors and diagnoses of a replay are those of this machine."""

    kind: Literal["machine"] = "machine"
    machine: Machine
    gpu: GpuFacts | None = None
    """Of a GPU's target, with all its figures."""

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, data: Any) -> Any:
        """Take the form with peaks, facts and environment side by side."""
        if not isinstance(data, dict) or "machine" in data or "peaks" not in data:
            return data
        older = dict(data)
        known = {**older.pop("environment", {}), **older.pop("facts", {})}
        peaks = Peaks.model_validate(older.pop("peaks"))
        gpu = None if older.get("gpu") is None else GpuFacts.model_validate(older["gpu"])
        found: dict[str, object] = {"peaks": peaks, "processor": peaks.device}
        if gpu is not None:
            found["accelerator"] = accelerator_of(kind_of(gpu), gpu)
        return {**older, "machine": machine_of_environment(known).model_copy(update=found)}


class RecordedTask(Frozen):
    """An admitted task."""

    kind: Literal["task"] = "task"
    task_id: str
    name: str
    """For a reader; not part of the identity."""
    baseline_ms: dict[str, float]
    """Eager latency per workload."""


class RecordedEvaluation(Frozen):
    """One verdict; search and final measurements are apart."""

    kind: Literal["evaluation"] = "evaluation"
    evaluation: Evaluation


class RecordedAlternation(Frozen):
    """Finalists of one task, timed in turn with each other."""

    kind: Literal["alternation"] = "alternation"
    task_id: str
    alternation: Alternation

    @property
    def candidates(self) -> frozenset[str]:
        """Ids of all who were timed."""
        return frozenset((*self.alternation.order, *(name for name, _ in self.alternation.left_out)))


class RecordedComparison(Frozen):
    """A candidate of a search, timed in turn with its base."""

    kind: Literal["comparison"] = "comparison"
    task_id: str
    candidate: str
    base: str
    alternation: Alternation


class RecordedClosing(Frozen):
    """How one candidate's open parameters were closed."""

    kind: Literal["closing"] = "closing"
    task_id: str
    closing: ClosedParameters


Entry = Annotated[
    RecordedMachine
    | RecordedTask
    | RecordedEvaluation
    | RecordedAlternation
    | RecordedComparison
    | RecordedClosing,
    Field(discriminator="kind"),
]
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


class Recording:
    """Measurements by task and candidate; of two with the same key the first stays."""

    def __init__(self, entries: Iterable[Entry] = (), keep: Callable[[Entry], None] | None = None) -> None:
        """Add entries; ``keep`` is then called with each new entry."""
        self.machine: RecordedMachine | None = None
        self._tasks: dict[str, RecordedTask] = {}
        self._evaluations: dict[tuple[str, str, bool], Evaluation] = {}
        self._alternations: dict[tuple[str, frozenset[str]], RecordedAlternation] = {}
        self._comparisons: dict[tuple[str, str, str], RecordedComparison] = {}
        self._closings: dict[tuple[str, str], RecordedClosing] = {}
        self._keep: Callable[[Entry], None] | None = None
        for entry in entries:
            self.add(entry)
        self._keep = keep

    def __len__(self) -> int:
        return len(self._evaluations)

    def add(self, entry: Entry) -> None:
        """Add an entry unless its key is known."""
        if self._is_new(entry) and self._keep is not None:
            self._keep(entry)

    def entries(self) -> Iterator[Entry]:
        """Yield everything, the machine first."""
        if self.machine is not None:
            yield self.machine
        yield from self._tasks.values()
        for evaluation in self._evaluations.values():
            yield RecordedEvaluation(evaluation=evaluation)
        yield from self._alternations.values()
        yield from self._comparisons.values()
        yield from self._closings.values()

    def find_alternation(self, task_id: str, candidates: Collection[str]) -> Alternation | None:
        """Return how these candidates were timed in turn, None when they were not."""
        found = self._alternations.get((task_id, frozenset(candidates)))
        return None if found is None else found.alternation

    def find_comparison(self, task_id: str, candidate: str, base: str) -> Alternation | None:
        """Return how a candidate was timed in turn with its base, None when it was not."""
        found = self._comparisons.get((task_id, candidate, base))
        return None if found is None else found.alternation

    @property
    def has_closings(self) -> bool:
        """Tell whether anything was closed by timings when this was recorded."""
        return bool(self._closings)

    def find_closing(self, task_id: str, written: str) -> ClosedParameters | None:
        """Return how an open candidate was closed, None when it was not."""
        found = self._closings.get((task_id, written))
        return None if found is None else found.closing

    def find(self, task_id: str, candidate_id: str, *, is_final: bool) -> Evaluation | None:
        """Return the recorded verdict, None when there is none."""
        return self._evaluations.get((task_id, candidate_id, is_final))

    def baseline_ms(self, task_id: str) -> Mapping[str, float] | None:
        """Return eager's latency per workload, None for an unknown task."""
        task = self._tasks.get(task_id)
        return None if task is None else task.baseline_ms

    def _is_new(self, entry: Entry) -> bool:
        if isinstance(entry, RecordedMachine):
            is_new = self.machine is None
            self.machine = self.machine or entry
            return is_new
        if isinstance(entry, RecordedTask):
            return self._tasks.setdefault(entry.task_id, entry) is entry
        if isinstance(entry, RecordedAlternation):
            return self._alternations.setdefault((entry.task_id, entry.candidates), entry) is entry
        if isinstance(entry, RecordedComparison):
            pair = entry.task_id, entry.candidate, entry.base
            return self._comparisons.setdefault(pair, entry) is entry
        if isinstance(entry, RecordedClosing):
            return self._closings.setdefault((entry.task_id, entry.closing.written), entry) is entry
        evaluation = entry.evaluation
        key = evaluation.task_id, evaluation.candidate_id, evaluation.is_final
        return self._evaluations.setdefault(key, evaluation) is evaluation


def recording_of(store: Store, experiment: str | None = None) -> Recording:
    """Return what a store's runs have measured; only the experiment's when one is named."""
    return Recording(
        entry for record in store.iter_runs(experiment) for entry in _entries(store, record.run_id)
    )


def recording_of_run(store: Store, run_id: str) -> Recording:
    """Return what one run has measured."""
    return Recording(_entries(store, run_id))


def _entries(store: Store, run_id: str) -> Iterable[Entry]:
    task = store.get_run(run_id).spec.task
    for stored in store.iter_events(run_id):
        event = stored.event
        if isinstance(event, TaskPrepared) and event.baselines_ms:
            yield RecordedTask(task_id=task.id, name=task.name, baseline_ms=event.baselines_ms)
        elif isinstance(event, CandidateEvaluated):
            yield RecordedEvaluation(evaluation=event.evaluation)
        elif isinstance(event, FinalistsTimed):
            yield RecordedAlternation(task_id=task.id, alternation=event.alternation)
        elif isinstance(event, ComparedWithBase):
            yield RecordedComparison(
                task_id=task.id,
                candidate=event.candidate,
                base=event.base,
                alternation=event.alternation,
            )
        elif isinstance(event, ParametersClosed):
            yield RecordedClosing(task_id=task.id, closing=event.closing)


def read_recording(path: Path) -> Recording:
    """Read a recording from a file, or from FILE_NAME in a folder.

    Raises:
        UserError: it cannot be read, or a line of it is no entry. A last line cut short is left out.
    """
    file = path / FILE_NAME if path.is_dir() else path
    return Recording(_parse(file, _complete_lines(file)))


def open_recording(path: Path, more: Recording | None = None) -> Recording:
    """Open a recording to add to, with what it holds already and what ``more`` holds.

    Every addition is in the file when ``add`` returns. A last line cut short is removed.

    Raises:
        UserError: the file cannot be read or written, or a line of it is no entry.
    """
    lines = _complete_lines(path) if path.exists() else []
    known = _parse(path, lines)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written anew and swapped in: what was cut short goes, and a failure here loses nothing.
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise UserError(f"cannot write the recording {path}: {error.strerror}; name another place") from error

    def keep(entry: Entry) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(entry.model_dump_json() + "\n")

    recording = Recording(known, keep)
    for entry in more.entries() if more is not None else ():
        recording.add(entry)
    return recording


def _complete_lines(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: no recording can be read there; name a file that --record wrote") from error
    return text.split("\n")[:-1]


def _parse(file: Path, lines: Iterable[str]) -> list[Entry]:
    entries: list[Entry] = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(_ENTRY.validate_json(line))
        except ValidationError as error:
            raise UserError(f"{file}:{number}: not an entry of a recording; record it again") from error
    return entries


class RecordedEvaluator:
    """An evaluator that looks up measurements, makes the missing ones and keeps them."""

    def __init__(self, inner: Evaluator | None, recording: Recording, *, is_served: bool = True) -> None:
        """Wrap an evaluator.

        Args:
            inner: who measures what is missing; None: nobody, and a missing measurement is a UserError.
            recording: where to look, and where new measurements go.
            is_served: False: everything is measured anew, and the recording only listens.
        """
        self.inner, self.recording = inner, recording
        self.is_served = is_served or inner is None

    def open(self, task: Task) -> "RecordedSession":
        """Return a session; the inner evaluator is asked to admit the task when it is needed first."""
        return RecordedSession(self, task)


class RecordedSession:
    """See Session. A task that is wholly recorded never reaches the inner evaluator."""

    def __init__(self, evaluator: RecordedEvaluator, task: Task) -> None:
        self._evaluator, self._task = evaluator, task
        self._inner: Session | None = None
        self._served: set[str] = set()
        """Candidates whose search verdict was recorded before."""

    @property
    def baseline_ms(self) -> Mapping[str, float]:
        """Eager latency per workload."""
        recording = self._evaluator.recording
        known = recording.baseline_ms(self._task.id) if self._evaluator.is_served else None
        if known is not None:
            return known
        measured = dict(self._ask("the task itself").baseline_ms)
        recording.add(RecordedTask(task_id=self._task.id, name=self._task.name, baseline_ms=measured))
        return measured

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        """Return the recorded verdict, or a new one.

        Raises:
            UserError: it is not recorded, and there is nobody to measure.
        """
        recording = self._evaluator.recording
        if self._evaluator.is_served:
            known = recording.find(self._task.id, candidate.id, is_final=final)
            if known is not None:
                self._served.add(candidate.id)
                return known
        what = f"candidate {candidate.id} ({'final' if final else 'search'} measurement)"
        asked = self._ask(what)
        measured = asked.evaluate(candidate, final=final, floors=floors or {}, baselines=baselines)
        recording.add(RecordedEvaluation(evaluation=measured))
        return measured

    def alternate(self, candidates: Sequence[Candidate], limit_s: float | None = None) -> Alternation | None:
        """Return how these candidates were timed in turn, or time them; None where nobody can."""
        recording, task_id = self._evaluator.recording, self._task.id
        if self._evaluator.is_served:
            known = recording.find_alternation(task_id, [candidate.id for candidate in candidates])
            has_final = any(recording.find(task_id, c.id, is_final=True) for c in candidates)
            if known is not None or has_final or self._evaluator.inner is None:
                return known  # a final that is recorded without it is of before there were alternations
        asked = self._ask("its finalists")
        found = asked.alternate(candidates, limit_s) if isinstance(asked, AlternatingSession) else None
        if found is not None:
            recording.add(RecordedAlternation(task_id=task_id, alternation=found))
        return found

    def compare(self, candidate: Candidate, base: Candidate, limit_s: float) -> Alternation | None:
        """Return how a candidate was timed in turn with its base, or time them; None where nobody can.

        A candidate whose verdict is recorded, and no comparison with it, was not compared then either.
        """
        recording, task_id = self._evaluator.recording, self._task.id
        if self._evaluator.is_served:
            known = recording.find_comparison(task_id, candidate.id, base.id)
            if known is not None or candidate.id in self._served or self._evaluator.inner is None:
                return known
        asked = self._ask(f"candidate {candidate.id} beside its base")
        found = asked.compare(candidate, base, limit_s) if isinstance(asked, ComparingSession) else None
        if found is not None:
            recording.add(
                RecordedComparison(task_id=task_id, candidate=candidate.id, base=base.id, alternation=found)
            )
        return found

    def close_parameters(self, candidate: Candidate, seconds: float) -> ClosedParameters | None:
        """Return the recorded values, or have them found; None where nobody can."""
        recording, task_id = self._evaluator.recording, self._task.id
        known = recording.find_closing(task_id, candidate.id) if self._evaluator.is_served else None
        if known is not None:
            return known
        if self._evaluator.inner is None and not defaults_of(candidate):
            return None  # its schedules: nobody timed them when this was recorded
        asked = self._ask(f"what candidate {candidate.id} leaves open")
        found = asked.close_parameters(candidate, seconds) if isinstance(asked, ClosingSession) else None
        if found is not None:
            recording.add(RecordedClosing(task_id=task_id, closing=found))
        return found

    def _ask(self, what: str) -> Session:
        inner = self._evaluator.inner
        if inner is None:
            raise UserError(
                f"the recording has no measurement of {what} on task {self._task.name!r}; replay what was "
                "recorded (recipes, seeds, budget), or record this too on a machine that can measure"
            )
        if self._inner is None:
            self._inner = inner.open(self._task).__enter__()
        return self._inner

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inner is not None:
            self._inner.__exit__(kind, error, trace)
            self._inner = None


def prepare_as_recorded(machine: RecordedMachine) -> Preparation:
    """Return a way to prepare tasks as on the recorded machine, whatever this one is."""
    return lambda spec, cache_dir: prepare_on(spec, machine.machine, machine.gpu)

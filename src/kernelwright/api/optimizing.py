"""A search for a faster module, from a request to what came of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

from torch import nn

from kernelwright.api.starting import Begun
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import Event
from kernelwright.core.policy import Weights
from kernelwright.core.task import Task
from kernelwright.delivery.making import SEED, Delivery, deliver
from kernelwright.delivery.saving import save
from kernelwright.report.files import write_text
from kernelwright.report.html import render_report
from kernelwright.report.measures import speedup_over
from kernelwright.report.progress import show_run
from kernelwright.report.story import tell
from kernelwright.report.verdict import Verdict, run_verdict
from kernelwright.runs.loop import RunOutcome
from kernelwright.settings import Settings, load_settings
from kernelwright.store.base import Store
from kernelwright.tasks.namespace import construct_model, load_namespace


@dataclass(frozen=True, repr=False)
class OptimizeResult:
    """What came of ``optimize``."""

    run_id: str
    evaluation: Evaluation | None
    """The referee's final verdict on the replacement; None when there is none."""
    source: str | None
    """The replacement's source file, None when the module is unchanged."""
    reason: str
    """Why the search ended."""
    store: Store
    task: Task
    winner: Candidate | None = None
    original: nn.Module | None = None
    """The module that was given; None when a file or text was."""
    settings: Settings | None = None
    """Where caches are; default: ``load_settings()``."""

    @cached_property
    def module(self) -> nn.Module:
        """Drop-in replacement that owns its parameters, copies of the original's; see docs/delivery.md.

        The original itself when nothing faster was found. Of a file, ``Model`` is constructed anew.
        """
        if self.delivery is not None:
            return self.delivery.module
        if self.original is not None:
            return self.original
        return construct_model(self.task, load_namespace(self.task, self.task.workloads[0]), SEED)

    @cached_property
    def delivery(self) -> Delivery | None:
        """The replacement with its kernel and contract; None when nothing faster was found."""
        if self.winner is None:
            return None
        policy = self.store.get_run(self.run_id).spec.policy
        return deliver(self.winner, self.task, self.original, is_frozen=policy.weights is Weights.FROZEN)

    @property
    def speedup(self) -> float | None:
        """Geometric mean over the workloads against eager; None when the module is unchanged."""
        return self.evaluation.geomean_speedup() if self.evaluation and self.source else None

    def save(self, folder: str | Path) -> Path:
        """Write the replacement into a folder, and return its path; ``kernelwright.load`` reads it.

        The folder holds kernel, compiled library, weights, verdict and what the module falls back to; it runs
        without Kernelwright. See docs/delivery.md.

        Raises:
            UserError: nothing faster was found, the folder holds something else or cannot be written, or the
                module holds what no folder keeps.
        """
        if self.delivery is None:
            raise UserError(f"{self.task.name} is unchanged: there is no kernel to save")
        spec = self.store.get_run(self.run_id).spec
        cache = self.settings.cache_dir if self.settings is not None else load_settings().cache_dir
        return save(self.delivery, folder, cache_dir=cache, evaluation=self.evaluation, machine=spec.machine)

    def save_report(self, path: str | Path) -> Path:
        """Write the run's self-contained HTML report and return its path."""
        return write_text(Path(path), render_report(self.store, self.run_id))

    def __repr__(self) -> str:
        speedup = speedup_over(self.evaluation, "eager") if self.evaluation and self.source else None
        how = f"{speedup} over eager" if speedup else "unchanged"
        return f"<OptimizeResult {self.task.name!r}: {how}; run {self.run_id}>"

    def _repr_html_(self) -> str:
        verdict = self._verdict()
        lines = "".join(f"<li>{escape(line)}</li>" for line in verdict.lines)
        return f"<b>{escape(verdict.headline)}</b><ul>{lines}</ul><small>run {escape(self.run_id)}</small>"

    def _verdict(self) -> Verdict:
        return run_verdict(tell(stored.event for stored in self.store.iter_events(self.run_id)))


def finish(
    begun: Begun,
    *,
    original: nn.Module | None = None,
    progress: bool | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> OptimizeResult:
    """Carry a run to its end and return what came of it; ``progress`` as ``show_run``."""
    spec = begun.spec
    with show_run(spec.task.name, spec.budget.evaluations, progress) as shown:

        def listen(event: Event) -> None:
            shown.add(event)
            if on_event is not None:
                on_event(event)

        outcome = begun.carry_on(listen)
    return result_of(begun, outcome, original)


def result_of(begun: Begun, outcome: RunOutcome, original: nn.Module | None = None) -> OptimizeResult:
    """Return what a run that has ended came to."""
    return OptimizeResult(
        run_id=outcome.run_id,
        evaluation=outcome.evaluation,
        source=outcome.winner.source if outcome.winner else None,
        reason=outcome.reason,
        store=begun.store,
        task=begun.spec.task,
        winner=outcome.winner,
        original=original,
        settings=begun.settings,
    )

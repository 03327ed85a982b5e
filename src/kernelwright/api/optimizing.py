"""A search for a faster module, from a request to what came of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

from torch import nn

from kernelwright.api.capturing import require_own
from kernelwright.api.starting import Begun
from kernelwright.core.blocks import Composition
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import Event, ModelTakenApart
from kernelwright.core.policy import Weights
from kernelwright.core.task import Task
from kernelwright.delivery.backward import BackwardTask, deliver_with_backward
from kernelwright.delivery.compared import OtherFunctionError
from kernelwright.delivery.making import Delivery, deliver
from kernelwright.delivery.runtime.calls import advise
from kernelwright.delivery.runtime.kernel import SEED
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
from kernelwright.tasks.randomness import kept_random_state
from kernelwright.whole.patching import PatchedModel, deliver_patched
from kernelwright.whole.saving import save_patched


@dataclass(frozen=True)
class BackwardRun:
    """What came of optimising gradients."""

    note: str
    """In one line: what computes gradients, and why."""
    run_id: str | None = None
    """Of the search; None when it did not begin."""
    evaluation: Evaluation | None = None
    """The referee's final verdict on the backward kernel; its eager baseline is forward and backward."""
    winner: Candidate | None = None
    """None: the original computes gradients."""
    task: BackwardTask | None = None
    step: float | None = None
    """Eager over kernels, of forward and backward together, from the medians of both finals; at the lower
    end of the interval. None when nothing was measured."""


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
    apart: ModelTakenApart | None = None
    """Of a whole model: its blocks and how it was put together. Of a module that torch.compile alone makes
    fastest: that, and no blocks. None for one kernel."""
    is_stored: bool = False
    """The store had the answer: nothing was measured now."""
    backward: BackwardRun | None = None
    """What came of ``with_backward``; None where it was not asked for."""

    @cached_property
    def module(self) -> nn.Module:
        """Drop-in replacement that owns its parameters, copies of the original's; see docs/delivery.md.

        The original itself when nothing faster was found, and, with a warning, where the kernel returns
        something else on the examples. Of a file, ``Model`` is constructed anew.

        Raises:
            TaskError: the original has other attributes or submodules than it was verified with.
        """
        if self.original is None:
            require_own(self.task, self.settings, "result.module")
        if self.patched is not None:
            return self.patched.module
        if self.delivery is not None:
            return self.delivery.module
        if self.original is not None:
            return self.original
        with kept_random_state():
            return construct_model(self.task, load_namespace(self.task, self.task.workloads[0]), SEED)

    @cached_property
    def delivery(self) -> Delivery | None:
        """The replacement with its kernel and contract; None when nothing faster was found, for a whole
        model whose blocks have kernels, and where torch.compile alone is delivered."""
        is_one = self.composition is not None and self.composition.is_one
        if self.winner is None or (self.apart is not None and not is_one):
            return None
        require_own(self.task, self.settings, "delivery")
        back = self.backward
        policy = self.store.get_run(self.run_id).spec.policy
        try:
            if back is not None and back.winner is not None and back.task is not None:
                return deliver_with_backward(self.winner, self.task, self.original, back.task, back.winner)
            return deliver(self.winner, self.task, self.original, is_frozen=policy.weights is Weights.FROZEN)
        except OtherFunctionError as error:
            _warn(error)
            return None

    @cached_property
    def patched(self) -> PatchedModel | None:
        """The whole model with kernels in its blocks, or a module that torch.compile alone makes fastest;
        None when nothing was faster, or for one kernel."""
        way = self.composition
        if self.winner is None or self.apart is None or way is None or way.is_one:
            return None
        chosen = [self.apart.blocks[kind] for kind in way.kinds]
        winners = [
            (block.paths, self.store.get_candidate(block.candidate or "", block.run_id)) for block in chosen
        ]
        try:
            return deliver_patched(
                self.task, self.original, winners, self.winner, is_compiled=way.is_compiled
            )
        except OtherFunctionError as error:
            _warn(error)
            return None

    @property
    def composition(self) -> Composition | None:
        """How the whole model is put together; None when it is unchanged, or for one kernel."""
        ways = self.apart.compositions if self.apart is not None else ()
        return next((way for way in ways if self.winner and way.candidate == self.winner.id), None)

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
        spec = self.store.get_run(self.run_id).spec
        cache = self.settings.cache_dir if self.settings is not None else load_settings().cache_dir
        if self.patched is not None and self.winner is not None:
            return save_patched(
                self.patched,
                folder,
                self.winner,
                cache_dir=cache,
                evaluation=self.evaluation,
                machine=spec.machine,
            )
        if self.delivery is None:
            raise UserError(
                f"{self.task.name} is unchanged: there is no kernel to save; look at result.speedup first"
            )
        return save(
            self.delivery,
            folder,
            cache_dir=cache,
            evaluation=self.evaluation,
            machine=spec.machine,
            backward=self.backward.evaluation if self.backward is not None else None,
        )

    def save_report(self, path: str | Path) -> Path:
        """Write the run's self-contained HTML report and return its path."""
        return write_text(Path(path), render_report(self.store, self.run_id))

    def __repr__(self) -> str:
        speedup = speedup_over(self.evaluation, "eager") if self.evaluation and self.source else None
        how = f"{speedup} over eager" if speedup else "unchanged"
        stored = " of the store" if self.is_stored else ""
        return f"<OptimizeResult {self.task.name!r}: {how}; run {self.run_id}{stored}>"

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
    with show_run(spec.task.name, spec.budget, progress) as shown:

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
        apart=_apart(begun),
        is_stored=begun.is_stored,
    )


def _warn(error: OtherFunctionError) -> None:
    """Say that a module is left as it is."""
    advise(f"{error}. Until then it is unchanged", stacklevel=4)


def _apart(begun: Begun) -> ModelTakenApart | None:
    events = (stored.event for stored in begun.store.iter_events(begun.run_id))
    return next((event for event in events if isinstance(event, ModelTakenApart)), None)

"""What a run knows from other runs. It is fixed when the run begins, so a resumed run knows the same."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Analysis
from kernelwright.agents.signature import task_signature
from kernelwright.core.learned import ArchivedPlan, Finding, Passage
from kernelwright.core.run import Outcome, RunSpec
from kernelwright.memory.archive import StoredPlans
from kernelwright.memory.documents import choose
from kernelwright.memory.findings import Findings
from kernelwright.memory.ledger import InformedLedger, Ledger
from kernelwright.skills.stats import EmptyLedger, LedgerView
from kernelwright.store.base import Store

ANYTHING = ""
"""A structure and a bottleneck to which no finding is limited."""
N_PASSAGES = 6
"""Passages of documents that a role is shown; our choice."""
N_ALIKE = 8
"""Archived plans that a run is shown; our choice."""


@dataclass(frozen=True)
class Knowledge:
    """Long-term memory as it stood when the run began."""

    others: Ledger
    """What other runs measured."""
    plans: StoredPlans
    learned: Sequence[Finding] = ()
    documents: Sequence[Passage] = ()
    """What the user gave the run to read."""
    target: str = "cpu/cpp"
    coder: str = "expert"
    """The team in the Coder's seat, which carries this run's moves out."""
    has_long_term: bool = True
    """False in an ablation: nothing of other runs, nor of this one, is known, and no skill is recommended."""

    @classmethod
    def of(cls, store: Store, spec: RunSpec, *, has_long_term: bool) -> "Knowledge":
        """Read what the run may know: nothing that was stored after the run began."""
        return cls(
            others=Ledger.of_tallies(store.tallies(until=spec.ledger_until), spec.coder),
            plans=StoredPlans(store, spec.archive_until),
            learned=spec.findings,
            documents=spec.documents,
            target=str(spec.target),
            coder=spec.coder,
            has_long_term=has_long_term,
        )

    def ledger(self, own: Iterable[Outcome]) -> LedgerView:
        """Return what was measured of each skill, this run's outcomes included."""
        if not self.has_long_term:
            return EmptyLedger()
        factors = Findings(self.learned).for_target(self.target)
        return InformedLedger(self.others.plus(own), factors)

    def findings(self, analysis: Analysis | None) -> tuple[Finding, ...]:
        """Return admitted findings that fit a diagnosed base; without a diagnosis, those for anywhere."""
        admitted = Findings(self.learned if self.has_long_term else ())
        if analysis is None:
            return admitted.admitted_for(self.target, ANYTHING, ANYTHING)
        diagnosis = analysis.diagnosis
        return admitted.admitted_for(self.target, diagnosis.structure, diagnosis.bottleneck)

    def passages(self, problem: Problem, analysis: Analysis | None) -> tuple[Passage, ...]:
        """Return what the documents say of the task and of the base's bottleneck, most fitting first."""
        if not self.documents:
            return ()
        about = [problem.task.name, problem.task.source, str(problem.target)]
        if analysis is not None:
            diagnosis = analysis.diagnosis
            about += [
                diagnosis.structure,
                diagnosis.bottleneck,
                *(ranked.skill for ranked in analysis.ranked),
            ]
        return choose(self.documents, about, N_PASSAGES)

    def alike(self, problem: Problem) -> tuple[ArchivedPlan, ...]:
        """Return archived plans of tasks like this one, most alike first."""
        if not self.has_long_term or self.plans.is_empty:
            return ()
        return self.plans.alike(task_signature(problem), self.target, N_ALIKE, without_task=problem.task.id)

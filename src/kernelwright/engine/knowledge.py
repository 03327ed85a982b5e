"""What a run knows of other runs: fixed when it begins, so that a resumed run knows the same."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Analysis
from kernelwright.core.learned import ArchivedPlan, Finding
from kernelwright.core.run import Outcome
from kernelwright.memory.ledger import Ledger
from kernelwright.skills.stats import EmptyLedger, LedgerView


@dataclass(frozen=True)
class Knowledge:
    """Long-term memory as it stood when the run began."""

    outcomes: Sequence[Outcome] = ()
    plans: Sequence[ArchivedPlan] = ()
    admitted: Sequence[Finding] = ()
    has_long_term: bool = True
    """False in an ablation: nothing of other runs, nor of this one, is known."""

    def ledger(self, own: Iterable[Outcome]) -> LedgerView:
        """Return what was measured of each skill, this run's outcomes included."""
        return Ledger([*self.outcomes, *own]) if self.has_long_term else EmptyLedger()

    def findings(self, analysis: Analysis | None) -> tuple[Finding, ...]:
        """Return admitted findings that fit a diagnosed base."""
        return tuple(self.admitted) if self.has_long_term else ()

    def alike(self, problem: Problem) -> tuple[ArchivedPlan, ...]:
        """Return archived plans of tasks like this one, most alike first."""
        return tuple(self.plans) if self.has_long_term else ()

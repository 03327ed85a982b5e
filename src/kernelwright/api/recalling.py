"""What runs in a store have taught: measured effects of skills, findings, plans that won."""

from kernelwright.agents.signature import task_signature
from kernelwright.api.diagnosing import problem_for
from kernelwright.core.frozen import Frozen
from kernelwright.core.learned import ArchivedPlan, Finding
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task
from kernelwright.memory.archive import StoredPlans
from kernelwright.memory.ledger import Effect, Ledger
from kernelwright.settings import Settings
from kernelwright.store.base import Store


class Recollection(Frozen):
    """What a store remembers of a question."""

    effects: tuple[Effect, ...]
    """Expected against measured, by skill."""
    findings: tuple[Finding, ...]
    """Of the target, admitted ones first."""
    plans: tuple[ArchivedPlan, ...]
    """That won; with a task, those of the tasks most like it first."""


def recall(
    store: Store,
    *,
    target: TargetName,
    skill: str | None = None,
    task: Task | None = None,
    count: int = 8,
    settings: Settings | None = None,
) -> Recollection:
    """Return what a store remembers.

    Args:
        store: of the runs.
        target: whose findings and plans are meant.
        skill: limits effects and findings to one skill.
        task: orders the plans by likeness to it; None: the newest first.
        count: at most so many findings and plans.
        settings: where caches are.

    Raises:
        MachineError: with a task, and no compiler to measure the machine's peaks with.
    """
    effects = Ledger.of_tallies(store.tallies(), histograms=store.histograms()).effects()
    findings = [
        finding
        for finding in store.iter_findings()
        if finding.target == str(target) and skill in (None, finding.skill)
    ]
    findings.sort(key=lambda finding: finding.state != "admitted")
    plans = tuple(store.newest_plans(str(target), count))
    if task is not None and plans:
        problem, _ = problem_for(task, target, settings)
        plans = StoredPlans(store).alike(task_signature(problem), str(target), count)
    return Recollection(
        effects=tuple(effect for effect in effects if skill in (None, effect.skill)),
        findings=tuple(findings[:count]),
        plans=plans,
    )

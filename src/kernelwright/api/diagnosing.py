"""What limits a kernel: the referee's verdict, the evidence, the roofline and the skills that answer it."""

from collections.abc import Mapping

from kernelwright.agents.expert.analyst import ExpertAnalyst
from kernelwright.agents.expert.applicable import judged
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.problem import Problem
from kernelwright.api.capturing import preparation
from kernelwright.api.judging import read_kernel, run_evaluate
from kernelwright.api.machines import machine_for
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import TaskError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.evidence import Diagnosis, Evidence, FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.core.plan import Plan
from kernelwright.core.request import EvaluateRequest
from kernelwright.core.roofline import Floor, Peaks
from kernelwright.core.run import RunSpec
from kernelwright.core.skill import RankedSkill
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task
from kernelwright.memory.findings import Findings
from kernelwright.memory.ledger import InformedLedger, Ledger
from kernelwright.settings import Settings, load_settings
from kernelwright.skills.load import load_skills
from kernelwright.skills.stats import EmptyLedger, LedgerView
from kernelwright.store.base import Store
from kernelwright.targets.registry import all_targets
from kernelwright.tasks.places import load_place

OF_THE_PROGRAM = "program."
"""How facts begin that hold of a lowered plan only: nobody knows them of a kernel from elsewhere."""


class KernelDiagnosis(Frozen):
    """What limits one kernel on one task."""

    evaluation: Evaluation
    floors: dict[str, Floor]
    """By workload; empty where the task cannot be captured."""
    peaks: Peaks | None = None
    """What the floors rest on."""
    evidence: Evidence = Evidence()
    diagnosis: Diagnosis | None = None
    """None where the kernel is not verified: there is nothing to be explained then."""
    ranked: tuple[RankedSkill, ...] = ()
    """Skills that apply, best first."""


def problem_for(
    task: Task, target: TargetName, settings: Settings | None = None
) -> tuple[Problem, str | None]:
    """Return a task prepared for this machine, and why it could not be captured (None when it could).

    Raises:
        MachineError: no compiler to measure the machine's peaks with.
    """
    where = settings or load_settings()
    spec = RunSpec(task=task, recipe="none", target=target, machine=machine_for(target, where))
    return preparation(where)(spec, where.cache_dir)


def run_diagnose(
    request: EvaluateRequest,
    *,
    plan: Plan | None = None,
    settings: Settings | None = None,
    store: Store | None = None,
) -> KernelDiagnosis:
    """Judge the one kernel of a request and say what limits it.

    Args:
        request: the first of its kernels counts.
        plan: the plan that the kernel carries out, where the expert wrote it; None: it is not known.
        settings: where things are; default: ``load_settings()``.
        store: what was measured of the skills; None: nothing is known.

    Raises:
        UserError: something in the request cannot be, or the task is none that can be judged on.
        MachineError: no process, memory or compiler.
    """
    where = settings or load_settings()
    task = load_place(
        request.task, workloads=request.workloads, mode=request.mode, tolerance=request.tolerance
    )
    (evaluation,) = run_evaluate(
        request.model_copy(update={"kernels": request.kernels[:1]}), settings=settings
    )
    target = default_target(request.device)
    problem, why = problem_for(task, target, where)
    if why is not None or not evaluation.is_verified:
        return KernelDiagnosis(
            evaluation=evaluation, floors=dict(problem.floors), peaks=problem.peaks if not why else None
        )
    candidate = Candidate(source=read_kernel(request.kernels[0]), target=target, plan=plan or Plan())
    ledger = _ledger(store, target)
    lowering = PlanLowering(load_skills())
    found = ExpertAnalyst(lowering).analyse(problem, candidate, evaluation, ledger)
    if plan is None:
        found = judged(lowering, problem, Plan(), _without_program(found.evidence.facts), ledger)
    return KernelDiagnosis(
        evaluation=evaluation,
        floors=dict(problem.floors),
        peaks=problem.peaks,
        evidence=found.evidence,
        diagnosis=found.diagnosis,
        ranked=found.ranked,
    )


def default_target(device: str) -> TargetName:
    """Return the first target on a device; raises TaskError where there is none."""
    kind = device.partition(":")[0]
    found = next((target.name for target in all_targets() if target.device.name == kind), None)
    if found is None:
        raise TaskError(f"no target is on device {device!r}")
    return found


def _without_program(facts: Mapping[str, FactValue]) -> dict[str, FactValue]:
    return {name: value for name, value in facts.items() if not name.startswith(OF_THE_PROGRAM)}


def _ledger(store: Store | None, target: TargetName) -> LedgerView:
    if store is None:
        return EmptyLedger()
    factors = Findings(store.iter_findings()).for_target(str(target))
    return InformedLedger(Ledger.of_tallies(store.tallies()), factors)

"""From the project's records to the tools' answers."""

import math
from dataclasses import asdict

from kernelwright.api.diagnosing import KernelDiagnosis
from kernelwright.api.planning import PossibleMove, WrittenPlan
from kernelwright.api.recalling import Recollection
from kernelwright.core.checkup import Checkup
from kernelwright.core.evaluation import Evaluation, NumericalError, WorkloadResult
from kernelwright.core.evidence import Bottleneck, FactValue
from kernelwright.mcp import advice
from kernelwright.mcp.answers import (
    BottleneckReport,
    DrawnPoint,
    FloorBound,
    FoundFinding,
    FoundPlan,
    GpuKernel,
    GpuReport,
    KernelVerdict,
    LoweredKernel,
    Memory,
    NextMove,
    OpenDecision,
    ProgramSpace,
    SkillChoice,
    SkillEffect,
    SpaceFactor,
    TaskReport,
    TunedKernel,
    WorkloadTimes,
    WorstError,
)
from kernelwright.report.checkups import checkup_verdict, ordered
from kernelwright.report.inspections import headline, kernel_name
from kernelwright.report.spaces import SpaceResult
from kernelwright.report.tuned import TuneResult
from kernelwright.report.verdict import evaluation_verdict
from kernelwright.targets.gpu.inspect.inspection import Inspection
from kernelwright.targets.gpu.inspect.meaning import notes

LOG_CHARACTERS = 4000
"""Of a log that an agent is shown: its end."""
N_SKILLS = 8
N_MOVES = 40


def task_report(checkup: Checkup) -> TaskReport:
    """Return what an examination found."""
    return TaskReport(
        trustworthy=checkup.is_trustworthy,
        headline=checkup_verdict(checkup).headline,
        flags=tuple(ordered(checkup.flags)),
        sizes={name: str(value) for name, value in checkup.sizes.items()},
        next=advice.TASK_FINE if checkup.is_trustworthy else advice.TASK_BAD,
    )


def kernel_verdict(evaluation: Evaluation) -> KernelVerdict:
    """Return the referee's verdict."""
    verdict = evaluation_verdict(evaluation)
    return KernelVerdict(
        verified=evaluation.is_verified,
        status=evaluation.status,
        stage=evaluation.stage,
        check=evaluation.check,
        headline=verdict.headline,
        says=verdict.lines,
        next=advice.after_verdict(evaluation),
        speedup=evaluation.geomean_speedup(),
        is_faster=evaluation.is_faster,
        workloads=tuple(map(_times, evaluation.told)),
        worst_error=_worst(evaluation.errors),
        library_calls=evaluation.library_calls or {},
        log=evaluation.log[-LOG_CHARACTERS:],
        notes=evaluation.notes,
        is_final=evaluation.is_final,
        sandbox=evaluation.sandbox,
    )


def _times(result: WorkloadResult) -> WorkloadTimes:
    return WorkloadTimes(
        workload=result.workload,
        ms=result.candidate.median_ms,
        speedups=result.speedups,
        floor_ms=result.floor_ms,
    )


def _worst(errors: tuple[NumericalError, ...]) -> WorstError | None:
    if not errors:
        return None
    worst = max(errors, key=lambda e: e.error / e.allowed if e.allowed > 0 else math.inf)
    return WorstError(
        workload=worst.workload,
        distribution=worst.family,
        output=worst.output,
        error=_finite(worst.error),
        allowed=_finite(worst.allowed),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _facts(facts: dict[str, FactValue]) -> dict[str, FactValue]:
    known = {n: _rounded(v) if isinstance(v, float) else v for n, v in facts.items()}
    return {name: value for name, value in known.items() if value is not None}


def _rounded(value: float) -> float | None:
    """Return a figure with six significant digits: what lies beyond is noise."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def bottleneck_report(found: KernelDiagnosis) -> BottleneckReport:
    """Return what limits a kernel."""
    diagnosis, verdict = found.diagnosis, kernel_verdict(found.evaluation)
    is_at_floor = diagnosis is not None and diagnosis.bottleneck is Bottleneck.AT_FLOOR
    return BottleneckReport(
        verdict=verdict,
        bottleneck=diagnosis.bottleneck if diagnosis else None,
        also=diagnosis.also if diagnosis else (),
        headroom=diagnosis.headroom if diagnosis else None,
        structure=diagnosis.structure if diagnosis else None,
        reasons=tuple(reason.text for reason in diagnosis.reasons) if diagnosis else (),
        roofline=tuple(
            FloorBound(
                workload=name,
                floor_ms=floor.ms,
                bound_by=floor.bound_by,
                flops=floor.work.flops,
                min_bytes=floor.work.min_bytes,
            )
            for name, floor in found.floors.items()
        ),
        evidence=_facts(found.evidence.facts),
        skills=tuple(
            SkillChoice(skill=r.skill, score=r.score, reasons=r.reasons) for r in found.ranked[:N_SKILLS]
        ),
        next=verdict.next if diagnosis is None else advice.AT_FLOOR if is_at_floor else advice.DIAGNOSED,
    )


def memory_of(found: Recollection) -> Memory:
    """Return what a store remembers."""
    has_any = found.effects or found.findings or found.plans
    return Memory(
        effects=tuple(
            SkillEffect(
                skill=e.skill,
                by=e.coder,
                expected=e.expected,
                tries=e.tries,
                verified=e.verified,
                wins=e.wins,
                median_speedup=e.median_speedup,
            )
            for e in found.effects
        ),
        findings=tuple(FoundFinding(text=f.text, state=f.state, skill=f.skill) for f in found.findings),
        plans=tuple(
            FoundPlan(task=p.task_name, speedup=p.speedup, moves=p.plan.moves, run_id=p.run_id)
            for p in found.plans
        ),
        next=advice.RECALLED if has_any else advice.NOTHING_RECALLED,
    )


def lowered_kernel(written: WrittenPlan) -> LoweredKernel:
    """Return the expert's kernel."""
    return LoweredKernel(
        candidate_id=written.candidate.id,
        target=str(written.candidate.target),
        source=written.candidate.source,
        given_up=written.given_up,
        moves=tuple(map(_next_move, written.moves[:N_MOVES])),
        next=advice.LOWERED,
    )


def _next_move(move: PossibleMove) -> NextMove:
    return NextMove(skill=move.skill, region=move.region, why=move.why, gain=move.gain, params=move.params)


def program_space(found: SpaceResult) -> ProgramSpace:
    """Return which programs may be generated."""
    return ProgramSpace(
        headline=found.headline,
        log10=found.log10,
        factors=tuple(
            SpaceFactor(factor=factor, decisions=sum(d.factor == factor for d in found.decisions), log10=size)
            for factor, size in found.sizes.items()
        ),
        decisions=tuple(OpenDecision(**asdict(decision)) for decision in found.decisions),
        points=tuple(
            DrawnPoint(
                decides=point.decides,
                moves=point.moves,
                is_program=point.candidate is not None,
                illegal=point.illegal,
            )
            for point in found.points
        ),
        next=advice.SPACE,
    )


def tuned_kernel(found: TuneResult) -> TunedKernel:
    """Return what tuning came to."""
    verdict = kernel_verdict(found.evaluation) if found.evaluation is not None else None
    return TunedKernel(
        headline=found.headline,
        values=found.values,
        source=found.source,
        points=found.n_points,
        failed=found.n_failed,
        surface=found.surface,
        verdict=verdict,
        next=advice.TUNED if verdict is None else verdict.next,
    )


def gpu_report(inspection: Inspection) -> GpuReport:
    """Return a candidate's kernels on one GPU."""
    return GpuReport(
        gpu=inspection.device,
        architecture=inspection.architecture,
        can_run=inspection.can_run,
        headline=headline(inspection),
        detail=inspection.detail,
        kernels=tuple(
            GpuKernel(
                kernel=kernel_name(kernel),
                can_run=kernel.outcome.can_run,
                detail=kernel.detail,
                facts=_facts(kernel.facts),
                meaning=tuple(notes(kernel)),
            )
            for kernel in inspection.kernels
        ),
        notes=inspection.notes,
        log=inspection.log[-LOG_CHARACTERS:],
    )

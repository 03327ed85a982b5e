"""Made-up verdicts and peaks, for stand-ins in processes that are to start quickly: no torch is loaded."""

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Speedup, Stage, Status, Timing, WorkloadResult
from kernelwright.core.roofline import Peaks
from kernelwright.core.task import Task

PEAKS = Peaks(
    device="fake",
    n_threads=2,
    bandwidth_gbps=10.0,
    cache_bandwidth_gbps=20.0,
    cache_bytes=1 << 20,
    fma_gflops=100.0,
    source="made up for tests",
)


def fake_evaluation(
    candidate: Candidate, task: Task, verdict: float | Status, *, final: bool = False
) -> Evaluation:
    """Return a verified evaluation with that speedup, or a failing one with that status."""
    if isinstance(verdict, Status):
        return Evaluation(
            candidate_id=candidate.id, task_id=task.id, stage=Stage.VERIFY, status=verdict, detail="scripted"
        )
    timing = Timing(median_ms=10.0 / verdict, p10_ms=9.0, p90_ms=11.0, n_samples=9, calls_per_sample=1)
    eager = Timing(median_ms=10.0, p10_ms=9.0, p90_ms=11.0, n_samples=9, calls_per_sample=1)
    speedup = Speedup(baseline="eager", ratio=verdict, low=0.98 * verdict, high=1.02 * verdict)
    result = WorkloadResult(
        workload="default", candidate=timing, baselines={"eager": eager}, speedups=(speedup,)
    )
    return Evaluation(
        candidate_id=candidate.id,
        task_id=task.id,
        stage=Stage.DONE,
        status=Status.VERIFIED,
        results=(result,),
        is_final=final,
    )

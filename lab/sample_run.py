"""A made-up run of real core objects for tests of reports and commands.

No figure here was measured; no command of the project uses it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kernelwright.core.budget import Budget, Spent
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import (
    Evaluation,
    NumericalError,
    Speedup,
    Stage,
    Status,
    Timing,
    WorkloadResult,
)
from kernelwright.core.events import (
    BaseReplaced,
    CandidateEvaluated,
    CandidateWritten,
    Diagnosed,
    Event,
    IncumbentImproved,
    MoveChosen,
    MoveFailed,
    RunFinished,
    RunStarted,
    StepStarted,
    TaskPrepared,
)
from kernelwright.core.evidence import Bottleneck, Diagnosis, Evidence, Headroom, Reason
from kernelwright.core.model_call import ModelCall
from kernelwright.core.plan import Move, Plan
from kernelwright.core.roofline import Floor, Work
from kernelwright.core.run import RunSpec, RunState
from kernelwright.core.skill import RankedSkill
from kernelwright.core.task import Task
from kernelwright.store.base import RunRecord, StoredEvent

TASK = Task(
    name="softplus_scale",
    source="import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n",
    path="tasks/softplus_scale.py",
)
SPEC = RunSpec(
    task=TASK,
    recipe="kernelskill",
    budget=Budget(evaluations=24),
    environment={
        "processor": "Example CPU",
        "torch": "2.13.0",
        "machine.n_threads": 2,
        "machine.bandwidth_gbps": 18.0,
        "machine.fma_gflops": 150.0,
    },
)
FLOOR = Floor(ms=1.2, bound_by="memory", work=Work(flops=30_000_000, min_bytes=21_600_000))
EAGER_MS, COMPILE_MS = 9.6, 3.1
KERNEL = '''"""Fused softplus and scale."""
import torch
CPP_SOURCE = r"""
#include <cmath>
// one pass over memory
extern "C" void k0(const float* x, float* y, long n) {
  #pragma omp parallel for simd
  for (long i = 0; i < n; ++i) y[i] = 2.0f * std::log1p(std::exp(x[i]));
}
"""


class ModelNew(torch.nn.Module):
    def forward(self, x):  # <script>alert(1)</script>
        return x
'''


@dataclass
class StubStore:
    """Stands in for a store that holds exactly one run."""

    record: RunRecord
    events: list[Event]
    candidates: dict[str, Candidate] = field(default_factory=dict)

    def get_run(self, run_id: str) -> RunRecord:
        """Return the run."""
        assert run_id == self.record.run_id
        return self.record

    def iter_events(self, run_id: str) -> Iterator[StoredEvent]:
        """Iterate the events in order."""
        at = self.record.created_at
        return iter([StoredEvent(seq=i, at=at, event=e) for i, e in enumerate(self.events, 1)])

    def iter_candidates(self, run_id: str) -> Iterator[Candidate]:
        """Iterate the candidates in the order they were added."""
        return iter(self.candidates.values())

    def iter_model_calls(self, run_id: str) -> Iterator[ModelCall]:
        """Iterate the requests to models: there are none."""
        return iter(())


def verified(candidate: Candidate, ms: float, *, final: bool = False) -> Evaluation:
    """Return a verified evaluation at the given latency."""
    timing = Timing(median_ms=ms, p10_ms=ms * 0.97, p90_ms=ms * 1.06, n_samples=30, calls_per_sample=8)
    pairs = [("eager", EAGER_MS), *([("torch_compile", COMPILE_MS)] if final else [])]
    families = ("as_is", "scaled", "negated", "sparse_spikes")
    return Evaluation(
        candidate_id=candidate.id,
        task_id=TASK.id,
        stage=Stage.DONE,
        status=Status.VERIFIED,
        errors=tuple(
            NumericalError(
                workload="default",
                family=family,
                output="out0",
                error=2e-8 * (i + 1),
                reference_error=3e-8,
                allowed=1.2e-7,
            )
            for i, family in enumerate(families)
        ),
        families_skipped={"heavy_tail": "the reference itself is not finite there"},
        results=(
            WorkloadResult(
                workload="default",
                candidate=timing,
                baselines={
                    n: Timing(median_ms=b, p10_ms=b * 0.96, p90_ms=b * 1.1, n_samples=30, calls_per_sample=8)
                    for n, b in pairs
                },
                speedups=tuple(
                    Speedup(baseline=n, ratio=b / ms, low=b / ms * 0.96, high=b / ms * 1.05) for n, b in pairs
                ),
                floor_ms=FLOOR.ms,
            ),
        ),
        phases_s={"build": 0.4, "verify": 0.6, "time": 0.8},
        is_final=final,
    )


def failed(candidate: Candidate, status: Status, stage: Stage, detail: str, log: str = "") -> Evaluation:
    """Return an evaluation that stopped at a stage."""
    return Evaluation(
        candidate_id=candidate.id, task_id=TASK.id, stage=stage, status=status, detail=detail, log=log
    )


def diagnosed(step: int) -> Diagnosed:
    """Return a diagnosis with two ranked skills."""
    return Diagnosed(
        step=step,
        evidence=Evidence(facts={"run.floor_fraction": 0.31, "task.bound_by": "memory"}),
        diagnosis=Diagnosis(
            bottleneck=Bottleneck.EXTRA_TRAFFIC,
            also=(Bottleneck.COMPUTE,),
            headroom=Headroom.HIGH,
            structure="pointwise",
            reasons=(
                Reason(
                    metric="run.floor_fraction",
                    value=0.31,
                    text="It runs at 31 % of the rate the floor allows, so most of the time can go.",
                ),
            ),
        ),
        ranked=(
            RankedSkill(
                skill="fuse-pointwise", score=0.91, reasons=("3 intermediates in memory", "2 of 2 tries won")
            ),
            RankedSkill(skill="vector-width", score=0.42, reasons=("loops are not vectorised",)),
        ),
    )


def move(skill: str, **params: int) -> Move:
    """Return a move on the first region."""
    return Move(
        skill=skill,
        region="k0",
        params=dict(params),
        why="3 intermediates (64.8 MB) travel through memory.",
        expects="latency -60 %",
    )


def make_store(*, is_finished: bool = True, has_winner: bool = True) -> StubStore:
    """Return a run with a seed, a gain, a compile error and its repair, a refused move and a final."""
    fuse, vector, stream = move("fuse-pointwise"), move("vector-width", lanes=16), move("streaming-stores")
    seed = Candidate(source=KERNEL + "\nMADE = 'seed'\n", role="generator")
    fused = Candidate(source=KERNEL, parents=(seed.id,), plan=Plan(moves=(fuse,)), role="coder")
    broken = Candidate(source="broken", parents=(fused.id,), plan=Plan(moves=(fuse, vector)), role="coder")
    repaired = Candidate(
        source=KERNEL + "\nMADE = 'repair'\n", parents=(broken.id,), plan=Plan(moves=(fuse, vector))
    )
    events: list[Event] = [
        RunStarted(recipe="kernelskill", team="expert"),
        TaskPrepared(floors=(FLOOR,), baselines_ms={"default": EAGER_MS}),
        StepStarted(step=1, mode="seed", base=None),
        CandidateWritten(step=1, candidate=seed.id),
        CandidateEvaluated(step=1, candidate=seed.id, evaluation=verified(seed, 3.9)),
        IncumbentImproved(step=1, candidate=seed.id, speedup=EAGER_MS / 3.9),
        BaseReplaced(step=1, candidate=seed.id, speedup=EAGER_MS / 3.9),
        StepStarted(step=2, mode="optimize", base=seed.id),
        diagnosed(2),
        MoveChosen(step=2, base=seed.id, move=stream),
        MoveFailed(step=2, base=seed.id, move=stream, reason="region k0 has no contiguous output"),
        MoveChosen(step=2, base=seed.id, move=fuse, skipped=("streaming-stores[k0]() was not applicable",)),
        CandidateWritten(step=2, candidate=fused.id),
        CandidateEvaluated(step=2, candidate=fused.id, evaluation=verified(fused, 1.62)),
        IncumbentImproved(step=2, candidate=fused.id, speedup=EAGER_MS / 1.62),
        BaseReplaced(step=2, candidate=fused.id, speedup=EAGER_MS / 1.62),
        StepStarted(step=3, mode="optimize", base=fused.id),
        diagnosed(3),
        MoveChosen(step=3, base=fused.id, move=vector),
        CandidateWritten(step=3, candidate=broken.id),
        CandidateEvaluated(
            step=3,
            candidate=broken.id,
            evaluation=failed(
                broken,
                Status.COMPILE_ERROR,
                Stage.BUILD,
                "kernel.cpp:9: error: 'k' was not declared in this scope",
                "kernel.cpp:9:12: error: 'k' was not declared\n    9 |   y[k] = x[i];",
            ),
        ),
        StepStarted(step=4, mode="repair", base=broken.id),
        MoveChosen(step=4, base=broken.id, move=vector),
        CandidateWritten(step=4, candidate=repaired.id),
        CandidateEvaluated(step=4, candidate=repaired.id, evaluation=verified(repaired, 1.7)),
    ]
    if is_finished:
        final = verified(fused, 1.6 if has_winner else 9.5, final=True)
        events += [
            StepStarted(step=5, mode="final", base=fused.id),
            CandidateEvaluated(step=5, candidate=fused.id, evaluation=final),
            RunFinished(
                reason="every move that applies to the fastest candidate was tried",
                winner=fused.id if has_winner else None,
                evaluation=final,
                spent=Spent(evaluations=4, seconds=23.4),
            ),
        ]
    at = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    state = RunState.FINISHED if is_finished else RunState.RUNNING
    record = RunRecord(run_id="r0001", spec=SPEC, state=state, created_at=at, updated_at=at)
    return StubStore(record, events, {c.id: c for c in (seed, fused, broken, repaired)})

"""The expert Selector: the fastest as base, an informative contrast as reference, a reason for both."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.agents.expert.selector import ExpertSelector
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Node, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Speedup, Stage, Status, Timing, WorkloadResult
from kernelwright.core.machine import Machine
from kernelwright.core.plan import Move, Plan
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Task
from kernelwright.testing.fake_run import PEAKS

TASK = Task(name="t", source="reference")
PROBLEM = Problem(TASK, CPU_CPP, {}, {}, PEAKS, Machine())
SELECTOR = ExpertSelector()


def node(name: str, speedups: Sequence[float], moves: str = "", relation: str = "member") -> Node:
    """A member with a speedup per workload, 2 % either way; none: it failed."""
    candidate = Candidate(source=name, plan=Plan(moves=tuple(Move(skill=m) for m in moves)))
    status, stage = (Status.VERIFIED, Stage.DONE) if speedups else (Status.CRASHED, Stage.VERIFY)
    results = tuple(_result(f"w{n}", ratio) for n, ratio in enumerate(speedups))
    verdict = Evaluation(
        candidate_id=candidate.id, task_id=TASK.id, stage=stage, status=status, results=results
    )
    return Node(candidate, verdict, relation)


def _result(workload: str, ratio: float) -> WorkloadResult:
    timing = Timing(median_ms=10 / ratio, p10_ms=1, p90_ms=20, n_samples=5, calls_per_sample=1)
    speedup = Speedup(baseline="eager", ratio=ratio, low=0.98 * ratio, high=1.02 * ratio)
    return WorkloadResult(workload=workload, candidate=timing, baselines={}, speedups=(speedup,))


def picked(*members: Node) -> tuple[str, str, str]:
    pick = SELECTOR.select(Situation(problem=PROBLEM, window=members, timings_only=True))
    assert pick is not None
    names = {m.candidate.id: m.candidate.source for m in members}
    return names[pick.base], names[pick.reference], pick.why


def test_the_base_is_best_over_all_workloads_not_on_one() -> None:
    base, _, why = picked(node("spike", [9.0, 0.2]), node("even", [2.0, 2.0]))
    assert base == "even" and "2.00x over eager" in why


def test_the_reference_beats_the_base_where_it_is_weak() -> None:
    members = (
        node("base", [3.0, 3.0, 3.0]),
        node("near", [2.9, 2.9, 2.9], "xyz"),
        node("spike", [1.0, 1.0, 4.5]),
    )
    _, reference, why = picked(*members)
    assert reference == "spike" and "1.50x faster than it on w2" in why


def test_a_lead_within_what_timing_can_tell_is_none() -> None:
    members = node("base", [3.0, 3.0], "a"), node("noise", [3.05, 2.0], "a"), node("other", [1.0, 1.0], "bc")
    assert picked(*members)[1] == "other"


def test_otherwise_the_reference_is_the_plan_with_least_in_common() -> None:
    members = node("base", [3.0], "ab"), node("child", [2.0], "a"), node("stranger", [1.5], "cd")
    _, reference, why = picked(*members)
    assert reference == "stranger" and "100%" in why


def test_alone_the_base_is_its_own_reference() -> None:
    assert picked(node("only", [1.0]), node("broken", []))[:2] == ("only", "only")


def test_exhausted_members_are_references_only() -> None:
    assert picked(node("spent", [5.0], relation="reference"), node("base", [2.0]))[:2] == ("base", "spent")
    situation = Situation(problem=PROBLEM, window=(node("spent", [5.0], relation="reference"),))
    assert SELECTOR.select(situation) is None


@settings(max_examples=50)
@given(st.lists(st.lists(st.floats(0.1, 9), min_size=2, max_size=2) | st.just([]), max_size=6))
def test_a_pick_is_always_verified_and_deterministic(table: list[list[float]]) -> None:
    members = tuple(node(f"k{n}", speedups) for n, speedups in enumerate(table))
    situation = Situation(problem=PROBLEM, window=members)
    pick = SELECTOR.select(situation)
    assert pick == SELECTOR.select(situation)
    verified = {
        m.candidate.id: m.evaluation.geomean_speedup() or 0.0 for m in members if m.evaluation.results
    }
    assert (pick is None) == (not verified)
    if pick is not None:
        assert pick.reference in verified and verified[pick.base] == max(verified.values())

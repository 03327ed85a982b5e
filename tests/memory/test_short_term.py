"""Short-term memory: nothing is tried twice, ideas are credited with the end of their chain, replay."""

from typing import Any

from kernelwright.core.budget import Spent
from kernelwright.core.evaluation import Evaluation, Speedup, Stage, Status, Timing, WorkloadResult
from kernelwright.core.events import (
    CandidateEvaluated,
    CandidateWritten,
    ComparedWithBase,
    Event,
    MoveChosen,
    MoveFailed,
    RunFinished,
    StepStarted,
)
from kernelwright.core.finalists import Alternation
from kernelwright.core.plan import Move
from kernelwright.memory.short_term import ShortTermMemory

UNROLL = Move(skill="unroll", region="r_sum", params={"unroll": 4}, why="chain", expects="latency -20 %")
WIDER = UNROLL.model_copy(update={"params": {"unroll": 8}})


def ok(candidate: str, speedup: float, **changes: Any) -> Evaluation:
    timing = Timing(median_ms=1.0, p10_ms=1.0, p90_ms=1.0, n_samples=9, calls_per_sample=1)
    paired = Speedup(baseline="eager", ratio=speedup, low=speedup, high=speedup)
    result = WorkloadResult(workload="default", candidate=timing, baselines={}, speedups=(paired,))
    return Evaluation(
        candidate_id=candidate,
        task_id="t",
        stage=Stage.DONE,
        status=Status.VERIFIED,
        results=(result,),
        **changes,
    )


def broken(candidate: str, status: Status = Status.COMPILE_ERROR) -> Evaluation:
    return Evaluation(candidate_id=candidate, task_id="t", stage=Stage.BUILD, status=status, detail="no ';'")


def ended(memory: ShortTermMemory, move: Move) -> str:
    attempt = memory.attempt("base", move)
    assert attempt is not None
    return attempt.ended


def replayed(events: list[Event]) -> ShortTermMemory:
    memory = ShortTermMemory()
    for event in events:
        memory.observe(event)
    return memory


def test_a_move_is_tried_once_per_base_and_parameters() -> None:
    memory = ShortTermMemory()
    memory.record("base", UNROLL, ok("c1", 1.0))
    assert memory.is_tried("base", UNROLL.model_copy(update={"why": "another reason"}))
    assert not memory.is_tried("base", WIDER)
    assert not memory.is_tried("other", UNROLL)


def test_a_move_that_could_not_be_carried_out_is_not_repeated() -> None:
    memory = ShortTermMemory()
    memory.record_failed_move("base", UNROLL, "no region r_sum")
    assert memory.is_tried("base", UNROLL)
    assert ended(memory, UNROLL) == "not carried out: no region r_sum"
    assert memory.attempt("base", WIDER) is None


def test_a_repair_that_passed_is_not_undone_by_another_of_the_same_round() -> None:
    memory = ShortTermMemory()
    memory.record_seed(ok("base", 2.0))
    memory.record("base", UNROLL, broken("c1"))
    memory.record("base", UNROLL, ok("c2", 3.0))
    attempt = memory.record("base", UNROLL, broken("c3"))
    assert attempt.is_verified and attempt.speedup == 1.5 and attempt.repairs == 2
    assert memory.idea_of("c3") == attempt


def test_an_idea_is_credited_with_what_its_repair_chain_ends_in() -> None:
    memory = ShortTermMemory()
    memory.record_seed(ok("base", 2.0))
    memory.record("base", UNROLL, broken("c1"))
    memory.record("base", UNROLL, ok("c2", 3.0))
    attempt = memory.attempt("base", UNROLL)
    assert attempt is not None and attempt.is_verified and attempt.speedup == 1.5
    assert ended(memory, UNROLL) == "verified after 1 repair, 1.50x over its base [1.50, 1.50]"


def spread(candidate: str, low: float, speedup: float, high: float) -> Evaluation:
    known = ok(candidate, speedup)
    (result,) = known.results
    paired = Speedup(baseline="eager", ratio=speedup, low=low, high=high)
    return known.model_copy(update={"results": (result.model_copy(update={"speedups": (paired,)}),)})


def test_a_difference_within_the_intervals_of_both_is_none() -> None:
    memory = ShortTermMemory()
    memory.record_seed(spread("base", 1.32, 1.61, 1.97))
    memory.record("base", UNROLL, spread("c1", 1.12, 1.37, 1.67))
    assert ended(memory, UNROLL) == "verified, 0.85x over its base [0.64, 1.13], not distinguishable"
    memory.record("base", WIDER, spread("c2", 2.9, 3.0, 3.1))
    assert ended(memory, WIDER) == "verified, 1.86x over its base [1.52, 2.28]"


def test_what_was_timed_in_turn_with_its_base_says_so_in_the_place_of_two_ratios() -> None:
    memory = ShortTermMemory()
    memory.record_seed(spread("base", 1.32, 1.61, 1.97))
    memory.record("base", UNROLL, broken("c0"))
    memory.record("base", UNROLL, spread("c1", 1.12, 1.37, 1.67))
    lead = Speedup(baseline="base", ratio=1.08, low=1.03, high=1.13)
    timed = Alternation(order=("c1", "base"), leads=(lead,))
    memory.observe(ComparedWithBase(step=2, candidate="c1", base="base", alternation=timed))
    assert ended(memory, UNROLL) == "verified after 1 repair, 1.08x [1.03, 1.13] of its base"
    attempt = memory.attempt("base", UNROLL)
    assert attempt is not None and (attempt.speedup, attempt.interval) == (1.08, (1.03, 1.13))


def test_a_chain_counts_its_repairs() -> None:
    memory = ShortTermMemory()
    memory.record("base", UNROLL, broken("c0"))
    for n in range(1, 4):
        memory.record("base", UNROLL, broken(f"c{n}", Status.CRASHED))
    assert ended(memory, UNROLL) == "crashed after 3 repairs (no ';')"


def test_giving_up_closes_the_chain() -> None:
    memory = ShortTermMemory()
    memory.record("base", UNROLL, broken("c0"))
    memory.give_up("c0", "no idea left")
    assert ended(memory, UNROLL) == "compile_error (no ';'); given up: no idea left"
    assert memory.give_up("a seed", "no idea left") is None


def events() -> list[Event]:
    def evaluated(step: int, evaluation: Evaluation) -> list[Event]:
        name = evaluation.candidate_id
        return [
            CandidateWritten(step=step, candidate=name),
            CandidateEvaluated(step=step, candidate=name, evaluation=evaluation),
        ]

    return [
        StepStarted(step=0, mode="seed", base=None),
        *evaluated(0, ok("base", 2.0)),
        *evaluated(0, broken("seed2")),
        StepStarted(step=1, mode="optimize", base="base"),
        MoveChosen(step=1, base="base", move=WIDER),
        MoveFailed(step=1, base="base", move=WIDER, reason="spills"),
        MoveChosen(step=1, base="base", move=UNROLL),
        *evaluated(1, broken("c1")),
        StepStarted(step=2, mode="repair", base="c1"),
        MoveChosen(step=2, base="c1", move=Move(skill="safer")),
        *evaluated(2, broken("c2")),
        StepStarted(step=3, mode="repair", base="c2"),
        *evaluated(3, ok("c3", 3.0)),
        StepStarted(step=4, mode="final", base="c3"),
        *evaluated(4, ok("c3", 2.9, is_final=True)),
        RunFinished(reason="done", winner="c3", evaluation=None, spent=Spent()),
    ]


def test_replay_rebuilds_attempts_and_chains() -> None:
    memory = replayed(events())
    assert [attempt.ended for attempt in memory.tried("base")] == [
        "not carried out: spills",
        "verified after 2 repairs, 1.50x over its base [1.50, 1.50]",
    ]
    assert memory.tried("c1") == ()


def test_a_replay_cut_anywhere_and_carried_on_ends_the_same() -> None:
    whole = replayed(events())
    for cut in range(len(events())):
        memory = replayed(events()[:cut])
        for event in events()[cut:]:
            memory.observe(event)
        assert memory.tried("base") == whole.tried("base")


def test_an_event_that_a_resumed_run_repeats_counts_once() -> None:
    repeated = [copy for event in events() for copy in (event, event)]
    assert replayed(repeated).tried("base") == replayed(events()).tried("base")

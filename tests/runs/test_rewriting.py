"""What a rewrite is called: the move its plan added, or one of its own that no other rewrite bears."""

from kernelwright.core.candidate import Candidate
from kernelwright.core.plan import Move, Plan
from kernelwright.memory.short_term import ShortTermMemory
from kernelwright.runs.steps.rewriting import move_between

LIBRARY, UNROLL = Move(skill="library-seed"), Move(skill="unroll", params={"unroll": 4})
BASE = Candidate(source="base", plan=Plan(moves=(LIBRARY,)))


def rewritten(*moves: Move, source: str = "new") -> Candidate:
    return Candidate(source=source, plan=Plan(moves=moves))


def test_it_is_the_move_that_the_plan_added() -> None:
    assert move_between(BASE, rewritten(LIBRARY, UNROLL), ShortTermMemory()) == UNROLL


def test_a_move_taken_back_is_told() -> None:
    move = move_between(BASE, rewritten(), ShortTermMemory())
    assert move.skill == "rewrite" and "library-seed" in move.why


def test_two_rewrites_without_plans_are_two_moves() -> None:
    keys = {move_between(BASE, rewritten(LIBRARY, source=s), ShortTermMemory()).key for s in ("one", "two")}
    assert len(keys) == 2


def test_a_move_of_a_name_that_the_base_has_seen_is_told_apart() -> None:
    memory = ShortTermMemory()
    memory.record_failed_move(BASE.id, UNROLL, "scripted")
    move = move_between(BASE, rewritten(LIBRARY, UNROLL), memory)
    assert move.skill == "unroll" and not memory.is_tried(BASE.id, move)

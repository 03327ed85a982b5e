"""The plan archive: which tasks count as alike, and what of a plan is carried over."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.evidence import METRICS, FactValue
from kernelwright.core.learned import ArchivedPlan
from kernelwright.core.plan import Move, Plan
from kernelwright.memory.archive import (
    TRAITS,
    PlanArchive,
    StoredPlans,
    distance,
    distil,
    signature_of,
    skills_in_order,
)
from kernelwright.store.sqlstore import open_store

Signature = dict[str, FactValue]
NUMBERS = sorted(name for name, trait in TRAITS.items() if trait.scale != "equal")
KINDS: dict[str, st.SearchStrategy[FactValue]] = {
    "equal": st.sampled_from(["memory", "compute", "reduction", True, False]),
    "fraction": st.floats(0, 1),
    "count": st.integers(0, 500),
    "size": st.floats(0, 1e15),
}
SIGNATURES = st.fixed_dictionaries(
    {}, optional={name: KINDS[trait.scale] | st.none() for name, trait in TRAITS.items()}
)

ROW_SUM: Signature = {
    "graph.structure": "reduction",
    "task.bound_by": "memory",
    "task.flops": 16e6,
    "task.min_bytes": 64e6,
    "graph.n_reductions": 1,
    "graph.n_pointwise": 0,
    "graph.n_matmuls": 0,
}
SOFTMAX = ROW_SUM | {"task.flops": 80e6, "task.min_bytes": 128e6, "graph.n_pointwise": 2}
MATMUL = ROW_SUM | {
    "graph.structure": "anchor",
    "task.bound_by": "compute",
    "task.flops": 8e9,
    "graph.n_reductions": 0,
    "graph.n_matmuls": 1,
}


def archived(task: str, signature: Signature, *skills: str, **changes: object) -> ArchivedPlan:
    plan = Plan(moves=tuple(Move(skill=skill, region=f"r_{task}") for skill in skills))
    fields: dict[str, object] = {
        "task_id": task,
        "task_name": task,
        "target": "cpu/cpp",
        "signature": signature,
        "plan": plan,
        "initial_source": "first",
        "best_source": "best",
        "speedup": 2.0,
        "run_id": f"run of {task}",
    }
    return ArchivedPlan.model_validate(fields | changes)


def names(plans: tuple[ArchivedPlan, ...]) -> list[str]:
    return [plan.task_name for plan in plans]


@given(SIGNATURES, SIGNATURES)
def test_distance_is_symmetric_and_bounded(a: Signature, b: Signature) -> None:
    assert distance(a, b) == distance(b, a)
    assert 0.0 <= distance(a, b) <= 1.0


@given(SIGNATURES)
def test_distance_to_itself_is_zero(a: Signature) -> None:
    assert distance(a, dict(reversed(a.items()))) == 0.0


@given(SIGNATURES, SIGNATURES, st.sampled_from(NUMBERS), st.lists(st.floats(0, 1e12), min_size=3, max_size=3))
def test_distance_grows_with_the_difference_of_any_number(
    a: Signature, b: Signature, name: str, values: list[float]
) -> None:
    low, middle, high = sorted(values)
    near, far = distance(a | {name: low}, b | {name: middle}), distance(a | {name: low}, b | {name: high})
    assert near <= far


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_matters(name: str) -> None:
    assert distance({name: 0.2}, {name: 0.3}) > 0
    assert distance({name: 0.2}, {name: 0.3}) < distance({name: 0.2}, {name: 0.9})


@given(SIGNATURES, st.sampled_from(sorted(TRAITS)))
def test_an_unknown_fact_is_neither_the_same_nor_the_opposite(a: Signature, name: str) -> None:
    known, unknown = a | {name: 1.0}, a | {name: None}
    assert distance(known, unknown) > 0
    assert distance(unknown, {key: value for key, value in unknown.items() if key != name}) == 0
    assert distance(a | {name: math.nan}, unknown) == 0


def test_a_structure_weighs_more_than_a_size() -> None:
    bigger = ROW_SUM | {"task.flops": 16e9, "task.min_bytes": 64e9}
    assert distance(ROW_SUM, SOFTMAX) < distance(ROW_SUM, bigger) < distance(ROW_SUM, MATMUL)


def test_a_signature_holds_nothing_that_was_timed() -> None:
    facts: Signature = {name: 1.0 for name in METRICS}
    taken = signature_of(facts)
    assert taken.keys() == TRAITS.keys() <= METRICS.keys()
    assert not [name for name in taken if METRICS[name].unit in ("ms", "GB/s")]
    assert not [name for name in taken if name.split(".")[0] not in ("task", "graph")]
    assert signature_of({"graph.n_scans": None, "graph.structure": "scan"}) == {"graph.structure": "scan"}


def test_the_most_alike_task_comes_first() -> None:
    archive = PlanArchive([archived("matmul", MATMUL, "tile"), archived("softmax", SOFTMAX, "unroll")])
    assert names(archive.alike(ROW_SUM, "cpu/cpp", 5)) == ["softmax", "matmul"]
    assert names(archive.alike(MATMUL, "cpu/cpp", 1)) == ["matmul"]
    assert archive.alike(ROW_SUM, "cpu/cpp", 0) == () == archive.alike(ROW_SUM, "cuda/triton", 5)


def test_the_tasks_own_plans_are_left_out_when_told_so() -> None:
    archive = PlanArchive([archived("sum", ROW_SUM, "tile"), archived("softmax", SOFTMAX, "unroll")])
    assert names(archive.alike(ROW_SUM, "cpu/cpp", 5, without_task="sum")) == ["softmax"]
    assert names(archive.alike(ROW_SUM, "cpu/cpp", 5)) == ["sum", "softmax"]


def test_the_same_idea_is_returned_once_and_an_empty_plan_never() -> None:
    archive = PlanArchive(
        [
            archived("far", MATMUL, "unroll", "tile"),
            archived("near", SOFTMAX, "unroll", "tile"),
            archived("empty", ROW_SUM),
        ]
    )
    assert names(archive.alike(ROW_SUM, "cpu/cpp", 5)) == ["near"]


@given(st.permutations(["c", "a", "b"]))
def test_equally_alike_ones_come_by_speed_and_then_by_id(order: list[str]) -> None:
    plans = [archived(task, SOFTMAX, task) for task in order]
    faster = archived("z", SOFTMAX, "z", speedup=3.0)
    assert names(PlanArchive([*plans, faster]).alike(ROW_SUM, "cpu/cpp", 9)) == ["z", "a", "b", "c"]


@settings(max_examples=30)
@given(st.lists(st.tuples(SIGNATURES, *map(st.integers, (0, 0, 0), (4, 3, 2))), max_size=12), st.data())
def test_a_stores_plans_answer_as_an_archive_of_them_does(
    known: list[tuple[Signature, int, int, int]], data: st.DataObject
) -> None:
    store = open_store("sqlite://")
    plans = [
        archived(
            f"t{task}",
            signature,
            *["tile", "unroll"][: task % 3],
            f"s{skill}",
            speedup=1.0 + speed,
            run_id=f"r{n}",
        )
        for n, (signature, task, skill, speed) in enumerate(known)
    ]
    for plan in plans:
        store.add_plan(plan)
    asked = data.draw(st.sampled_from([ROW_SUM, *(plan.signature for plan in plans)]))
    count, until = data.draw(st.integers(0, 6)), data.draw(st.integers(0, len(plans)))
    for without in (None, "t1"):
        expected = PlanArchive(plans[:until]).alike(asked, "cpu/cpp", count, without_task=without)
        assert StoredPlans(store, until).alike(asked, "cpu/cpp", count, without_task=without) == expected
    store.close()


def test_what_is_carried_over_names_no_place_of_the_old_task() -> None:
    plan = Plan(
        moves=(
            Move(skill="fuse", region="r_a", why="saves 64 MB", text="edit line 3"),
            Move(skill="unroll", region="r_a", params={"unroll": 4}, expects="latency -20 %"),
            Move(skill="unroll", region="r_b", params={"unroll": 4}),
            Move(skill="unroll", region="r_b", params={"unroll": 8}),
            Move(skill="fuse", region="r_c"),
        )
    )
    fours = {"unroll": 4}
    assert distil(plan).moves == (
        Move(skill="fuse"),
        Move(skill="unroll", params=fours),
        Move(skill="unroll", params={"unroll": 8}),
    )
    assert skills_in_order(plan) == ("fuse", "unroll")
    assert distil(distil(plan)) == distil(plan) and skills_in_order(Plan()) == ()

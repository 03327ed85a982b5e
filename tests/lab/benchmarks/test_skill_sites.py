"""What the gate shows has a place, and what has a place is found, on a handful of tasks."""

import pytest
from lab.benchmarks.skill_sites import GateCount, count_task, sums, table

from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.skills.load import load_skills
from kernelwright.targets.registry import find_target
from kernelwright.tasks.suite import suite_tasks

NAMES = ("27_Softmax", "29_SquareMatmul", "46_LinearMishResidual", "21_MaxPool2d")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu/cpp", "cuda/triton"])
def test_shown_skills_have_places_and_skills_with_places_are_found(target: str) -> None:
    workshop, name = PlanLowering(load_skills()), find_target(target, to_run=False).name
    tasks = [task for task in suite_tasks() if task.name in NAMES]
    counts = [count for task in tasks for count in count_task(task, name, workshop)]
    assert len(counts) == 3 * len(NAMES)
    shown, placed, able, found = (sum(column) for column in zip(*map(sums, counts), strict=True))
    assert shown and placed >= 0.8 * shown
    assert able and found >= 0.8 * able


def test_a_skill_without_a_place_and_one_that_is_missed_count_against_the_gate() -> None:
    count = GateCount(
        task="t",
        state="generated",
        shown=("unroll", "streaming"),
        ranked=frozenset({"unroll", "streaming"}),
        by_edit=frozenset({"unroll", "tile"}),
        in_words=frozenset(),
    )
    assert sums(count) == (2, 1, 2, 1)
    assert "| all | 1 | 2 | 1 (50%) | 1 | 2 | 1 (50%) |" in table([count])

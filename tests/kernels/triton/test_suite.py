"""Whole candidates of suite tasks in Triton's interpreter: one task a kind of region, at small sizes."""

import pytest
from tests.kernels.triton.interpreted import Interpreter
from tests.kernels.triton.suite import TINY, check, short_name, small

from kernelwright.kernels.triton.schedule import TritonSchedule
from kernelwright.tasks.suite import suite_tasks

KINDS = (
    "8_ColumnMax", "14_BatchNormTrain", "18_CrossEntropy", "26_MaskedCumulativeProduct",
    "42_ConvGroupNormMean", "47_LinearDropoutSoftmax",
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_candidate_matches_the_reference(interpreter: Interpreter, name: str) -> None:
    task = next(t for t in suite_tasks() if short_name(t) == name)
    check(interpreter, small(task))


@pytest.mark.parametrize("name", ["15_InstanceNorm"])
@pytest.mark.parametrize(
    "schedule",
    [
        TritonSchedule(form="block", block_kept=4, block_inner=8),
        TritonSchedule(form="row", block_inner=16, moments="one_pass", programs=5),
        TritonSchedule(form="flat", block_kept=32),
    ],
    ids=["block", "row", "flat"],
)
def test_any_schedule_computes_the_same(
    interpreter: Interpreter, name: str, schedule: TritonSchedule
) -> None:
    task = next(t for t in suite_tasks() if short_name(t) == name)
    check(interpreter, small(task, TINY), schedule)

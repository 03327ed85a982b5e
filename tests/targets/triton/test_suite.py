"""Candidates of suite tasks in Triton's interpreter, judged as the referee does: all kinds of region."""

import dataclasses

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.marks import each_nth
from tests.targets.triton.interpreted import Interpreter
from tests.targets.triton.judging import FEW, Judge
from tests.targets.triton.suite import SMALL, TINY, check, lowered, short_name, small

from kernelwright.core.machine import ANY_GPU
from kernelwright.core.task import Task, Workload
from kernelwright.ir.program import Call, Region
from kernelwright.targets.triton.candidate import render_triton_candidate
from kernelwright.targets.triton.edits import triton_edits
from kernelwright.targets.triton.schedule import TritonSchedule, decide
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.suite import suite_tasks

TASKS = {short_name(task): task for task in suite_tasks()}
KINDS = {
    "reduction": "8_ColumnMax", "argmax": "10_ArgmaxRows", "group norm": "13_GroupNorm",
    "batch norm": "14_BatchNormTrain", "RMS norm": "16_RmsNorm", "matrix norm": "17_FrobeniusScale",
    "gathering loss": "18_CrossEntropy", "two-sided loss": "20_KullbackLeibler",
    "2D pooling": "21_MaxPool2d", "3D pooling": "22_AvgPool3d", "1D pooling": "23_AvgPool1d",
    "scan": "26_MaskedCumulativeProduct", "softmax over channels": "28_ChannelLogSoftmax",
    "epilogue after a matrix product": "39_LinearGeluScale", "norm after one": "47_LinearDropoutSoftmax",
    "epilogue after a convolution": "41_ConvBiasReluScale", "norm after that": "42_ConvGroupNormMean",
}  # fmt: skip
"""Kind of region -> the smallest task of it; ``python -m tests.targets.triton.suite`` takes all."""
COSTLY = ("8_ColumnMax", "10_ArgmaxRows", "22_AvgPool3d")
"""Tried at the tiny sizes here: the interpreter takes seconds for the others."""


@pytest.mark.parametrize("kind", each_nth(KINDS, 3))
def test_candidate_is_what_the_referee_wants(interpreter: Interpreter, kind: str) -> None:
    task = TASKS[KINDS[kind]]
    check(interpreter, small(task, TINY if KINDS[kind] in COSTLY else SMALL), keys=FEW)


@pytest.mark.parametrize(
    "schedule",
    [
        TritonSchedule(form="block", block_kept=4, block_inner=8),
        TritonSchedule(form="row", block_inner=16, moments="one_pass", programs=5),
        TritonSchedule(form="flat", block_kept=32),
    ],
    ids=["block", "row", "flat"],
)
@pytest.mark.parametrize("name", ["15_InstanceNorm", "19_SmoothL1"])
def test_any_schedule_computes_the_same(
    interpreter: Interpreter, name: str, schedule: TritonSchedule
) -> None:
    check(interpreter, small(TASKS[name], TINY), schedule, FEW[:2])


few = settings(
    max_examples=2,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
EDGES = st.sampled_from((2, 3, 16, 17, 33))


@pytest.mark.parametrize("name", ["18_CrossEntropy", "19_SmoothL1", "20_KullbackLeibler"])
@few
@given(rows=st.sampled_from((1, 2, 16, 17)), columns=EDGES)
def test_losses_of_any_shape(interpreter: Interpreter, name: str, rows: int, columns: int) -> None:
    sizes = {"batch_size": rows, "classes": columns, "features": columns}
    check(interpreter, small(TASKS[name], sizes), keys=FEW[:2])


@few
@given(rows=st.sampled_from((1, 2, 16, 17)), inner=EDGES, columns=EDGES)
def test_epilogues_after_products_of_any_shape(
    interpreter: Interpreter, rows: int, inner: int, columns: int
) -> None:
    sizes = {"batch_size": rows, "in_features": inner, "out_features": columns}
    check(interpreter, small(TASKS["39_LinearGeluScale"], sizes), keys=FEW[:2])


@few
@given(images=st.integers(1, 2), channels=st.sampled_from((1, 3, 17)), height=EDGES, width=EDGES)
def test_epilogues_after_convolutions_of_any_shape(
    interpreter: Interpreter, images: int, channels: int, height: int, width: int
) -> None:
    sizes = {"batch_size": images, "in_channels": 2, "out_channels": channels}
    sizes |= {"height": 2 + min(height, 17), "width": 2 + width}
    check(interpreter, small(TASKS["41_ConvBiasReluScale"], sizes), keys=FEW[:2])


@few
@given(rows=EDGES, inner=EDGES, columns=EDGES)
def test_tiled_products_with_epilogues_of_any_shape(
    interpreter: Interpreter, rows: int, inner: int, columns: int
) -> None:
    sizes = {"batch_size": rows, "in_features": inner, "out_features": columns}
    task = small(TASKS["39_LinearGeluScale"], sizes)
    _, program = lowered(task)
    edit = triton_edits(ANY_GPU)["triton-matmul"]
    (site,) = edit.sites(program)
    program = edit.apply(program, site.region, {})
    (step,) = (s for s in program.steps if not (isinstance(s, Call) and s.is_view))
    assert isinstance(step, Region) and decide(step).form == "dot"
    source = render_triton_candidate(task, {"small": (capture_task(task, task.workloads[0]), program)}, "")
    judge = Judge(task)
    for trial in judge.trials(FEW):
        judge.check(trial, interpreter.forward(source, judge.init, trial.state, trial.inputs))


def test_what_the_referee_would_refuse_is_refused_here(interpreter: Interpreter) -> None:
    task = small(TASKS["16_RmsNorm"], TINY)
    source, _ = lowered(task)
    judge = Judge(task)
    (trial,) = judge.trials(FEW[:1])
    ran = interpreter.forward(source, judge.init, trial.state, trial.inputs)
    judge.check(trial, ran)
    (out,) = ran.outputs
    assert out is not None
    rounded = out.bfloat16().float()
    faults: list[dict[str, object]] = [
        {"outputs": [rounded]}, {"outputs": [out.double()]}, {"outputs": [out * float("nan")]},
        {"faults": ("out0 is not dense",)}, {"strides": [tuple(reversed(ran.strides[0]))]},
        {"state": {name: tensor + 1 for name, tensor in ran.state.items()}},
    ]  # fmt: skip
    for fault in faults:
        with pytest.raises(AssertionError):
            judge.check(trial, dataclasses.replace(ran, **fault))  # type: ignore[arg-type]


def test_every_family_of_the_referee_is_drawn_where_all_are_wanted() -> None:
    task = Task(name="t", source=TASKS["12_LayerNorm"].source, workloads=(Workload(name="w"),))
    families = {key.family for key in Judge(small(task, TINY)).every_key()}
    assert families >= {"as_is", "scaled", "negated", "sparse_spikes", "heavy_tail", "offset", "coarse"}

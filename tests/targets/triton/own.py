"""Products, convolutions and attention of our own in Triton: plans for tests, run in the interpreter."""

from collections.abc import Mapping

import torch
from tests.targets.cpp.test_products import task_of
from tests.targets.triton.interpreted import Interpreter

from kernelwright.core.plan import Move, ParamValue, Plan
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task, Workload
from kernelwright.ir.fusion_edits import own_products
from kernelwright.ir.plan_lowering import LoweredPlan, lower_plan, write_source
from kernelwright.ir.program import Call, Region
from kernelwright.targets.registry import target_of
from kernelwright.targets.triton.candidate import render_triton_candidate
from kernelwright.targets.triton.schedule import Decided, decide
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace

LOWERING = target_of(TargetName(device="cuda", language="triton")).lowering
CLOSE = 2e-5
"""Largest error in units of the largest result; a product that is missing shows at 1e-3 and more."""


def planned(task: Task, moves: Mapping[str, ParamValue] | None = None) -> tuple[LoweredPlan, Plan]:
    """Take every product from the library; ``moves`` (edit -> value) go to the first region on tiles."""
    captured = capture_task(task, Workload())
    nodes = own_products(captured)
    assert nodes, "no product that code could be generated for"
    plan = Plan(moves=tuple(Move(skill="fusion:own-product", region=node.name) for node in nodes))
    lowered = lower_plan(captured, plan, {}, LOWERING)
    for name, value in (moves or {}).items():
        edit = LOWERING.edits_for(lowered.machine)[f"triton-{name}"]
        field = getattr(edit, "field", "parts")
        move = Move(skill=f"schedule:triton-{name}", region=tiled(lowered).name, params={field: value})
        plan = plan.then(move)
        lowered = lower_plan(captured, plan, {}, LOWERING)
    return lowered, plan


def tiled(lowered: LoweredPlan) -> Region:
    """Return the first region whose products are added in tiles."""
    return next(s for s in lowered.program.steps if isinstance(s, Region) and decide(s).is_tiled)


def source_of(task: Task, lowered: LoweredPlan, plan: Plan) -> str:
    return write_source(task, {"default": lowered}, plan, render_triton_candidate)


def is_right(
    interpreter: Interpreter, layer: str, body: str, *shapes: tuple[int, ...], **moves: ParamValue
) -> Decided:
    """Run the candidate in the interpreter, compare with float64; return how the tiled region is done."""
    task = task_of(layer, body, *shapes)
    lowered, plan = planned(task, moves)
    assert not [s for s in lowered.program.steps if isinstance(s, Call) and not s.is_view]
    namespace = load_namespace(task, Workload())
    inputs = draw_inputs(task, namespace, seed=5)
    reference = construct_model(task, namespace, seed=0)
    state = {name: t.detach() for name, t in reference.state_dict().items()}
    ran = interpreter.forward(source_of(task, lowered, plan), (), state, list(inputs))
    with torch.no_grad():
        want = reference.double()(*(x.double() for x in inputs))
    (got,) = ran.outputs
    assert got is not None and not ran.faults and got.shape == want.shape
    scale = want.abs().max().clamp_min(1e-3)
    assert ((got.double() - want).abs().max() / scale).item() < CLOSE, task.source
    return decide(tiled(lowered))

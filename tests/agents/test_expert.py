"""The expert team on a real graph: seeds, grounded moves, no repetition, repairs."""

import pytest

from kernelwright.agents.expert.analyst import ExpertAnalyst
from kernelwright.agents.expert.debugger import ExpertDebugger
from kernelwright.agents.expert.generator import ExpertGenerator
from kernelwright.agents.expert.planner import ExpertPlanner
from kernelwright.agents.expert.workshop import LIBRARY_MOVE, Workshop
from kernelwright.agents.problem import Problem
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError
from kernelwright.core.evaluation import Status
from kernelwright.core.plan import Move, Plan
from kernelwright.core.roofline import floor
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Task, Workload
from kernelwright.memory.ledger import Ledger
from kernelwright.memory.short_term import ShortTermMemory
from kernelwright.skills.load import load_skills
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.work import count_work
from kernelwright.testing.fake_run import PEAKS, fake_evaluation

SOURCE = '''
import torch
from torch import nn

rows = 64

class Model(nn.Module):
    """Linear, then the sum over its features, then softmax over the rows."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(128, 256)

    def forward(self, x):
        return torch.softmax(self.linear(x).sum(dim=1), dim=0)

def get_inputs():
    return [torch.randn(rows, 128)]

def get_init_inputs():
    return []
'''
TASK = Task(
    name="linear_sum",
    source=SOURCE,
    workloads=(Workload(), Workload(name="wide", overrides={"rows": 96})),
)


@pytest.fixture(scope="module")
def problem() -> Problem:
    captured = {w.name: capture_task(TASK, w) for w in TASK.workloads}
    floors = {name: floor(count_work(c), PEAKS) for name, c in captured.items()}
    return Problem(TASK, CPU_CPP, captured, floors, PEAKS, {"machine.n_threads": 2})


@pytest.fixture
def workshop() -> Workshop:
    return Workshop(load_skills())


def candidate(problem: Problem, workshop: Workshop, plan: Plan) -> Candidate:
    return workshop.candidate(problem, plan, parents=(), role="generator")


def test_seeds_go_from_library_calls_to_all_the_algebra(problem: Problem, workshop: Workshop) -> None:
    seeds = ExpertGenerator(workshop).seeds(problem)
    assert seeds[0].plan.moves == (LIBRARY_MOVE,)
    assert "CPP_SOURCE" not in seeds[0].source and "CPP_SOURCE" in seeds[1].source
    assert any(move.skill.startswith("reassociate") for move in seeds[-1].plan.moves)


def test_one_source_serves_every_workload(problem: Problem, workshop: Workshop) -> None:
    source = candidate(problem, workshop, Plan()).source
    assert "_forward_default" in source and "_forward_wide" in source


def test_the_same_plan_gives_the_same_candidate(problem: Problem, workshop: Workshop) -> None:
    again = Workshop(load_skills())
    assert candidate(problem, workshop, Plan()).id == candidate(problem, again, Plan()).id


def test_an_unknown_skill_cannot_be_carried_out(problem: Problem, workshop: Workshop) -> None:
    with pytest.raises(LoweringError, match="no lowering"):
        candidate(problem, workshop, Plan(moves=(Move(skill="wishful-thinking"),)))


def test_the_planner_gives_reasons_and_never_a_tried_move(problem: Problem, workshop: Workshop) -> None:
    base = candidate(problem, workshop, Plan())
    evaluation = fake_evaluation(base, TASK, 1.5)
    analysis = ExpertAnalyst(workshop).analyse(problem, base, evaluation, Ledger())
    assert analysis.ranked and analysis.diagnosis.reasons
    memory, chosen = ShortTermMemory(), []
    for _ in range(3):
        choice = ExpertPlanner(workshop).plan(problem, base, analysis, memory)
        if choice is None:
            break
        assert choice.move.why
        chosen.append(choice.move.key)
        memory.record_failed_move(base.id, choice.move, "scripted")
    assert chosen and len(set(chosen)) == len(chosen)


def test_the_debugger_ends_at_code_that_torch_runs(problem: Problem, workshop: Workshop) -> None:
    failing = candidate(problem, workshop, Plan())
    debugger, tried = ExpertDebugger(workshop), []
    while (repaired := debugger.repair(
        problem, failing, fake_evaluation(failing, TASK, Status.CRASHED), tuple(tried)
    )) is not None:  # fmt: skip
        failing, move = repaired
        tried.append(move.key)
        assert len(tried) < 20
    assert tried
    assert "extern" not in failing.source

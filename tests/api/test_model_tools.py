"""The tools of a run: what they are offered for, and what they say of real drafts."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.agents.llm.conftest import KERNEL, TASK
from torch import nn

from kernelwright.agents.llm.sources import fold
from kernelwright.agents.llm.tools import Tool
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Node, Situation
from kernelwright.api.model_tools import model_tools, toolboxes
from kernelwright.api.tool_trials import UNKNOWN_ALLOWED, allowed_error
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import NumericalError
from kernelwright.core.machine import Machine
from kernelwright.core.models import ModelSettings, RoleModel
from kernelwright.core.roofline import Floor, Work
from kernelwright.core.run import RunSpec
from kernelwright.core.target import CPU_CPP, TargetName
from kernelwright.settings import load_settings
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.live import task_from_module
from kernelwright.testing.fake_run import PEAKS, fake_evaluation

SPEC = RunSpec(task=TASK, recipe="none")
ALL = (
    "compile_kernel",
    "try_kernel",
    "profile_base",
    "show_loop",
    "read_skill",
    "list_moves",
    "expert_kernel",
)
READING = ALL[4:]


@pytest.fixture(scope="module")
def situation() -> Situation:
    floor = Floor(ms=0.21, bound_by="memory", work=Work(flops=1_572_864, min_bytes=2_103_296))
    captured = {"default": capture_task(TASK, TASK.workloads[0])}
    problem = Problem(TASK, CPU_CPP, captured, {"default": floor}, PEAKS, Machine(cores=2, vector_bytes=32))
    base = Candidate(source=KERNEL, role="generator")
    return Situation(problem=problem, base=Node(base, fake_evaluation(base, TASK, 2.5), "base"))


@pytest.fixture(scope="module")
def tools() -> dict[str, Tool]:
    return {tool.name: tool for tool in model_tools(SPEC, load_settings())}


def test_every_tool_has_a_schema_that_names_its_arguments(tools: dict[str, Tool]) -> None:
    assert tuple(tools) == ALL
    assert all(tool.schema["type"] == "object" and tool.says for tool in tools.values())
    assert tools["try_kernel"].schema["required"] == ["source"]


@pytest.mark.parametrize(
    "spec",
    [
        SPEC.model_copy(update={"target": TargetName.parse("cuda/triton")}),
        SPEC.model_copy(update={"machine": Machine(is_elsewhere=True)}),
    ],
    ids=["for a GPU", "judged elsewhere"],
)
def test_what_would_build_and_run_is_offered_only_where_candidates_run_here(spec: RunSpec) -> None:
    assert tuple(tool.name for tool in model_tools(spec, load_settings())) == READING


def test_the_expert_is_offered_only_where_it_writes_the_language() -> None:
    spec = SPEC.model_copy(update={"target": TargetName.parse("cuda/cuda")})
    assert [tool.name for tool in model_tools(spec, load_settings())] == ["read_skill"]


def test_a_draft_may_be_off_by_what_its_kind_of_inputs_allows() -> None:
    base = Candidate(source=KERNEL, role="generator")
    strict = NumericalError(
        workload="default", family="as_is", output="0", error=0.0, reference_error=0.0, allowed=1e-5
    )
    errors = (strict, strict.model_copy(update={"family": "heavy_tail", "allowed": 0.5}))
    found = fake_evaluation(base, TASK, 2.5).model_copy(update={"errors": errors})
    assert allowed_error([found], "as_is") == pytest.approx(2e-5)
    assert allowed_error([found], "scaled") == pytest.approx(1.0), "nothing is known of that kind"
    assert allowed_error([], "as_is") == UNKNOWN_ALLOWED


def test_a_seat_whose_server_takes_no_tools_has_none() -> None:
    models = ModelSettings(
        model="openai:big",
        roles={"planner": RoleModel(model="openai:small")},
        without_tools=("openai:small",),
        tool_calls=2,
    )
    toolbox = toolboxes(SPEC, models, load_settings())
    coders = toolbox("coder")
    assert coders is not None and coders.most_calls == 2
    assert toolbox("planner") is None
    none = toolboxes(SPEC, models.model_copy(update={"tool_calls": 0}), load_settings())
    assert none("coder") is None


def test_a_skill_is_read_in_full(tools: dict[str, Tool], situation: Situation) -> None:
    said = tools["read_skill"].use(situation, '{"name": "streaming-stores"}')
    assert said.startswith("streaming-stores: ") and len(said.splitlines()) > 5
    unknown = tools["read_skill"].use(situation, '{"name": "../../etc/passwd"}')
    assert "there is no skill '../../etc/passwd'" in unknown and "streaming-stores" in unknown


def test_moves_are_listed_and_one_of_them_is_carried_out(
    tools: dict[str, Tool], situation: Situation
) -> None:
    lines = tools["list_moves"].use(situation, "{}").splitlines()
    found = [re.match(r"(\S+) @ (\S+) \(no parameters\): ", line) for line in lines]
    move = next(match for match in found if match is not None)
    assert "class ModelNew" in tools["expert_kernel"].use(situation, "{}")
    asked = {"moves": [{"skill": move[1], "region": move[2]}]}
    assert "class ModelNew" in tools["expert_kernel"].use(situation, json.dumps(asked))


def test_a_parameter_is_the_experts_guess_or_one_of_its_values(
    tools: dict[str, Tool], situation: Situation
) -> None:
    lines = tools["list_moves"].use(situation, "{}").splitlines()
    found = [re.match(r"(\S+) @ (\S+) \((\w+): ", line) for line in lines]
    move = next(match for match in found if match is not None)

    def written(params: dict[str, object]) -> str:
        asked = {"moves": [{"skill": move[1], "region": move[2], "params": params}]}
        return tools["expert_kernel"].use(situation, json.dumps(asked))

    assert "class ModelNew" in written({})
    for value in ("'; } int main() {", 10**9 + 7, -1.5):
        assert written({move[3]: value}).startswith(f"That cannot be done: move 1: no {move[3]} = ")
    assert "no nowhere = 1" in written({"nowhere": 1})


@pytest.mark.parametrize("name", ["list_moves", "expert_kernel"])
def test_a_plan_that_cannot_be_carried_out_is_words(
    name: str, tools: dict[str, Tool], situation: Situation
) -> None:
    for move in ({"skill": "no-such-skill"}, {"skill": "streaming-stores", "region": "no such place"}):
        said = tools[name].use(situation, json.dumps({"moves": [move]}))
        assert said.startswith("That cannot be done: move 1: ")


@pytest.mark.parametrize("name", ["list_moves", "expert_kernel"])
def test_a_task_that_was_not_captured_has_no_plans(
    name: str, tools: dict[str, Tool], situation: Situation
) -> None:
    bare = replace(situation, problem=replace(situation.problem, captured={}))
    assert "cannot be captured" in tools[name].use(bare, "{}")


@pytest.mark.parametrize("name", ["compile_kernel", "try_kernel"])
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("class ModelNew(:", "the file is no Python"),
        ("x = '\0'", "the file is no Python"),
        ("TUNE = open('x')\n", "must be a literal"),
    ],
)
def test_a_draft_that_is_no_file_is_words(
    name: str, source: str, said: str, tools: dict[str, Tool], situation: Situation
) -> None:
    assert said in tools[name].use(situation, json.dumps({"source": source}))


@pytest.mark.parametrize("sizes", [{"NO_SUCH": 3}, {"ROWS": 513}, {"ROWS": 0}, {"SCALE": 1}])
def test_sizes_may_only_be_made_smaller(
    sizes: dict[str, int], tools: dict[str, Tool], situation: Situation
) -> None:
    said = tools["try_kernel"].use(_sized(situation), json.dumps({"source": KERNEL, "sizes": sizes}))
    assert "sizes may be made smaller, those of: ROWS = 512" in said


def _sized(situation: Situation) -> Situation:
    source = TASK.source.replace("torch.randn(512,", "torch.randn(ROWS,") + "\n\nROWS = 512\nSCALE = 2.5\n"
    task = TASK.model_copy(update={"source": source})
    return replace(situation, problem=replace(situation.problem, task=task))


def _use(tool: Tool, situation: Situation, **arguments: object) -> str:
    """Return what a tool says; a machine with too much else to do tells nothing of the tool."""
    said = tool.use(situation, json.dumps(arguments))
    if re.search(r"\bin time\b|too late|was not free", said):
        pytest.skip(said)
    return said


@pytest.mark.slow
def test_a_draft_is_compiled_and_not_run(tools: dict[str, Tool], situation: Situation) -> None:
    compiled = _use(tools["compile_kernel"], situation, source=fold(KERNEL))
    assert compiled.startswith("It compiles.")
    broken = _use(tools["compile_kernel"], situation, source=KERNEL.replace("sum += v", "sum += nowhere"))
    assert broken.startswith("It does not compile: ") and "nowhere" in broken


@pytest.mark.slow
def test_a_draft_is_run_against_the_reference(tools: dict[str, Tool], situation: Situation) -> None:
    tool = tools["try_kernel"]
    assert _use(tool, situation, source=fold(KERNEL)).startswith("It runs. The error of every element")
    wrong = KERNEL.replace("out[row] = sum;", "out[row] = row % 16 == 15 ? 0.0f : sum;")
    assert "index modulo 16 is 15" in _use(tool, situation, source=wrong)
    fixed = _use(tool, _sized(situation), source=KERNEL, sizes={"ROWS": 64})
    assert not fixed.startswith("It runs."), "this kernel has its 512 rows in its text"


@pytest.mark.slow
def test_a_draft_for_a_live_module_is_run_against_it(
    tmp_path: Path, tools: dict[str, Tool], situation: Situation
) -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.GELU())
    task = task_from_module(module, (torch.randn(4, 8),), name="live", folder=tmp_path)
    live = replace(situation, problem=replace(situation.problem, task=task))
    draft = "from torch import nn\nclass ModelNew(nn.Sequential):\n    def __init__(self):\n"
    draft += "        super().__init__(nn.Linear(8, 8), nn.GELU())\n"
    assert _use(tools["try_kernel"], live, source=draft).startswith("It runs. The error of every element")
    wrong = draft.replace("GELU", "ReLU")
    assert not _use(tools["try_kernel"], live, source=wrong).startswith("It runs.")


@pytest.mark.slow
def test_the_base_is_timed_and_its_loop_is_shown(tools: dict[str, Tool], situation: Situation) -> None:
    timed = _use(tools["profile_base"], situation)
    assert "threads: median" in timed and "GB/s" in timed
    shown = _use(tools["show_loop"], situation)
    assert shown.startswith("Loop 1 of ") or "no disassembler" in shown

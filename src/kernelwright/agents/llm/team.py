"""The language-model team: every seat, one line to the models."""

from collections.abc import Callable

from kernelwright.agents.llm.aligner import ModelAligner
from kernelwright.agents.llm.analyst import MeasuringAnalyst, ModelAnalyst
from kernelwright.agents.llm.asking import Asker
from kernelwright.agents.llm.breeder import ModelBreeder
from kernelwright.agents.llm.client import Client
from kernelwright.agents.llm.coder import ModelCoder
from kernelwright.agents.llm.debugger import ModelDebugger
from kernelwright.agents.llm.designer import ModelDesigner
from kernelwright.agents.llm.generator import ModelGenerator
from kernelwright.agents.llm.planner import ModelPlanner, Moves
from kernelwright.agents.llm.selector import ModelSelector
from kernelwright.agents.llm.tools import ROLES, Toolbox
from kernelwright.agents.roles import ANCHORING, Team
from kernelwright.core.skill import Skill
from kernelwright.skills.load import load_skills

CALLS = dict.fromkeys(("generator", "coder", "selector", "designer", "breeder"), 1)
"""Requests that a seat makes before there is a kernel to judge, where no setting decides. The Aligner looks
at kernels afterwards."""


def llm_team(
    client: Client,
    expert: Team,
    *,
    skills: dict[str, Skill] | None = None,
    moves: Moves | None = None,
    prompt_tokens: int | None = None,
    toolbox: Callable[[str], Toolbox | None] = lambda role: None,
    is_merged: bool = False,
    is_repair_merged: bool = False,
    kernels_per_call: int = 1,
) -> Team:
    """Return a team of models.

    Args:
        client: The run's line to its models; seats ask under their names, e.g. ``planner``.
        expert: Measures and diagnoses for the Analyst, and writes the root of live modules.
        skills: Their texts go into prompts; None: the library of the package.
        moves: For a team whose Coder is the expert: the moves it can carry out on a base. Planner, Designer
            and Breeder then choose among them.
        prompt_tokens: What the models have room for, where that is less than the windows' budgets.
        toolbox: By seat: what its model may call before it answers.
        is_merged: The Planner's answer holds the kernel too, which the Coder hands in.
        is_repair_merged: The Debugger's answer holds the diagnosis and the repair.
        kernels_per_call: What one answer of a writer may hold.
    """
    library = load_skills() if skills is None else skills

    coders = 1 if moves is None else 0
    followers = {
        "analyst": coders + (not is_merged),
        "selector": 1 + coders,
        "debugger": 1,  # where it answers by a schema, its own repair is to come
        **dict.fromkeys(("planner", "designer", "breeder"), coders),
    }

    def asker(role: str) -> Asker:
        tools = toolbox(role) if role in ROLES else None
        return Asker(client, role, library, prompt_tokens, tools, kernels_per_call, followers.get(role, 0))

    return Team(
        name="llm",
        generator=ModelGenerator(asker("generator"), expert.generator),
        analyst=ModelAnalyst(asker("analyst"), MeasuringAnalyst(expert.analyst, library)),
        planner=ModelPlanner(asker("planner"), moves, coder=asker("coder") if is_merged else None),
        coder=ModelCoder(asker("coder")),
        debugger=ModelDebugger(asker("debugger"), is_merged=is_repair_merged),
        selector=ModelSelector(asker("selector")),
        designer=ModelDesigner(asker("designer"), moves),
        breeder=ModelBreeder(asker("breeder"), moves),
        aligner=ModelAligner(asker("aligner")),
        calls={
            **CALLS,
            ANCHORING: 1,
            "planner": 0 if is_merged else 1,
            "debugger": 1 if is_repair_merged else 2,
        },
    )

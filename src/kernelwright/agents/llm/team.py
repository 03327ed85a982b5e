"""The language-model team: every seat, one line to the models."""

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
from kernelwright.agents.roles import Team
from kernelwright.core.skill import Skill
from kernelwright.skills.load import load_skills


def llm_team(
    client: Client,
    expert: Team,
    *,
    skills: dict[str, Skill] | None = None,
    moves: Moves | None = None,
    prompt_tokens: int | None = None,
) -> Team:
    """Return a team of models.

    Args:
        client: The run's line to its models; seats ask under their names, e.g. ``planner``.
        expert: Measures and diagnoses for the Analyst, and writes the root of live modules.
        skills: Their texts go into prompts; None: the library of the package.
        moves: For a team whose Coder is the expert: the moves it can carry out on a base. Planner, Designer
            and Breeder then choose among them.
        prompt_tokens: What the models have room for, where that is less than the windows' budgets.
    """
    library = load_skills() if skills is None else skills

    def asker(role: str) -> Asker:
        return Asker(client, role, library, prompt_tokens)

    return Team(
        name="llm",
        generator=ModelGenerator(asker("generator"), expert.generator),
        analyst=ModelAnalyst(asker("analyst"), MeasuringAnalyst(expert.analyst, library)),
        planner=ModelPlanner(asker("planner"), moves),
        coder=ModelCoder(asker("coder")),
        debugger=ModelDebugger(asker("debugger")),
        selector=ModelSelector(asker("selector")),
        designer=ModelDesigner(asker("designer"), moves),
        breeder=ModelBreeder(asker("breeder"), moves),
        aligner=ModelAligner(asker("aligner")),
    )

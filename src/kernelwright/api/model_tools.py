"""What a run's models may ask before they answer: ordinary calls of the library behind typed tools."""

from collections.abc import Callable

from kernelwright.agents.llm.tools import READ_SKILL, Tool, Toolbox
from kernelwright.agents.roles import Situation
from kernelwright.api.tool_arguments import (
    CompileKernel,
    ExpertPlan,
    ProfileBase,
    ReadSkill,
    ShowLoop,
    TryKernel,
)
from kernelwright.api.tool_readings import kernel_written, moves_listed, skill_text
from kernelwright.api.tool_trials import compiled, profiled, shown_loop, tried
from kernelwright.core.models import ModelSettings
from kernelwright.core.run import RunSpec
from kernelwright.settings import Settings
from kernelwright.targets.registry import target_of

COMPILE = "Compile a draft: the compiler's errors and warnings, and what its machine code has. Runs nothing."
TRY = (
    "Build a draft, run it against the reference, and say which elements are wrong; no verdict. `sizes` "
    "makes whole numbers of the task's file smaller."
)
PROFILE = "Time the base now: milliseconds with one thread and with all, and the rates that it reaches."
LOOP = "Show the assembly of an innermost loop of the base; 1 computes most with vectors."
WRITE = "Print the kernel that the expert compiler writes for a plan; without moves its default kernel."
MOVES = "List the moves that the expert compiler could carry out on top of a plan of its own."


def toolboxes(spec: RunSpec, models: ModelSettings, settings: Settings) -> Callable[[str], Toolbox | None]:
    """Return by seat what its model may call; the same for a run and for its replay."""
    tools = model_tools(spec, settings)

    def toolbox(role: str) -> Toolbox | None:
        most = models.tool_calls_of(role)
        return Toolbox(tools, most) if most and tools else None

    return toolbox


def model_tools(spec: RunSpec, settings: Settings) -> tuple[Tool, ...]:
    """Return the tools of a run; what builds and runs only where candidates run on the processor here."""
    target = target_of(spec.target)
    is_away = target.device.is_apart or spec.machine.is_elsewhere
    return (*(() if is_away else _trying(settings)), *_reading(has_expert=target.writer is not None))


def _trying(settings: Settings) -> tuple[Tool, ...]:
    def compile_kernel(situation: Situation, asked: CompileKernel) -> str:
        return compiled(asked.source, settings)

    def show_loop(situation: Situation, asked: ShowLoop) -> str:
        return shown_loop(situation, asked.number, settings)

    return (
        Tool("compile_kernel", COMPILE, CompileKernel, compile_kernel, is_of_draft=True),
        Tool("try_kernel", TRY, TryKernel, tried, is_of_draft=True),
        Tool("profile_base", PROFILE, ProfileBase, profiled, needs_base=True),
        Tool("show_loop", LOOP, ShowLoop, show_loop, needs_base=True),
    )


def _reading(*, has_expert: bool) -> tuple[Tool, ...]:
    """Return what reads skills, and what asks the expert, where it writes kernels for the target."""
    skill = Tool(READ_SKILL, "Show the full text of a skill.", ReadSkill, skill_text, needs_long_term=True)
    expert = (
        Tool("list_moves", MOVES, ExpertPlan, moves_listed, needs_long_term=True),
        Tool("expert_kernel", WRITE, ExpertPlan, kernel_written, needs_long_term=True),
    )
    return (skill, *(expert if has_expert else ()))

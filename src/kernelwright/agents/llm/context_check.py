"""Before anything starts: does what a model has room for hold the prompts of its seats?"""

from collections.abc import Collection, Mapping

from pydantic import BaseModel

from kernelwright.agents.llm import outputs
from kernelwright.agents.llm.prompts import least_tokens, prompting_of
from kernelwright.agents.llm.structured import schema_tokens
from kernelwright.agents.llm.window import CORRECTION_SHARE, WINDOWS
from kernelwright.core.errors import UserError
from kernelwright.core.models import ModelSettings
from kernelwright.core.target import CPU_CPP, TargetName

ANALYST = "analyst"
STRUCTURED: Mapping[str, type[BaseModel]] = {
    "planner": outputs.ProposedMove,
    "planner_anchors": outputs.AnchoredMove,
    "debugger_diagnose": outputs.RootCause,
    "selector": outputs.PickedPair,
    "designer": outputs.ProposedDesign,
    "breeder_populate": outputs.ProposedPlans,
    "breeder_cross": outputs.ProposedPlan,
    "aligner": outputs.AlignedPlan,
}
"""Prompt -> what it is answered with, where code has to read it; the analyst's is the target's."""


def least_prompt(name: str, target: TargetName = CPU_CPP) -> int:
    """Return the tokens that a prompt needs with its schema and corrections, by ``estimate_tokens``."""
    needed = least_tokens(name, target)
    answer = prompting_of(target).features if name == ANALYST else STRUCTURED.get(name)
    if answer is None:
        return needed
    needed += schema_tokens(answer)
    return -(-needed * CORRECTION_SHARE // (CORRECTION_SHARE - 1))


def require_room(settings: ModelSettings, seats: Collection[str], target: TargetName = CPU_CPP) -> None:
    """Raise UserError when the context that was given cannot hold the least prompt of one of the seats.

    A target that models are not asked for is a UserError as well.
    """
    prompting_of(target)
    room = settings.prompt_tokens()
    if room is None:
        return
    names = [name for name in WINDOWS if name.partition("_")[0] in seats]
    needed = {name: least_prompt(name, target) for name in names}
    largest = max(needed, key=needed.__getitem__, default=None)
    if largest is not None and needed[largest] > room:
        seat = largest.partition("_")[0]
        raise UserError(
            f"the context leaves {room} tokens for prompts and the {seat}'s needs at least "
            f"{needed[largest]}: give more context tokens or fewer output tokens, or that seat to the "
            "expert"
        )

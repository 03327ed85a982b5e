"""Before anything starts: does what a model has room for hold the prompts of its seats?"""

from collections.abc import Collection, Mapping

from pydantic import BaseModel

from kernelwright.agents.llm import outputs
from kernelwright.agents.llm.languages import language_of
from kernelwright.agents.llm.prompts import least_tokens
from kernelwright.agents.llm.structured import schema_tokens
from kernelwright.agents.llm.window import CORRECTION_SHARE, WINDOWS
from kernelwright.core.errors import UserError
from kernelwright.core.models import ModelSettings

STRUCTURED: Mapping[str, type[BaseModel]] = {
    "analyst": outputs.CodeFeatures,
    "planner": outputs.ProposedMove,
    "planner_anchors": outputs.AnchoredMove,
    "debugger_diagnose": outputs.RootCause,
    "selector": outputs.PickedPair,
    "designer": outputs.ProposedDesign,
    "breeder_populate": outputs.ProposedPlans,
    "breeder_cross": outputs.ProposedPlan,
    "aligner": outputs.AlignedPlan,
}
"""Prompt -> what it is answered with, where code has to read it; an analyst's on a GPU is no longer."""


def least_prompt(name: str, language: str = "cpp") -> int:
    """Return the tokens that a prompt needs with its schema and corrections, by ``estimate_tokens``."""
    needed = least_tokens(name, language)
    if name not in STRUCTURED:
        return needed
    needed += schema_tokens(STRUCTURED[name])
    return -(-needed * CORRECTION_SHARE // (CORRECTION_SHARE - 1))


def require_room(settings: ModelSettings, seats: Collection[str], language: str = "cpp") -> None:
    """Raise UserError when the context that was given cannot hold the least prompt of one of the seats.

    ``language`` is the target's; one in which models are not asked for kernels is a UserError as well.
    """
    language_of(language)
    room = settings.prompt_tokens()
    if room is None:
        return
    names = [name for name in WINDOWS if name.partition("_")[0] in seats]
    needed = {name: least_prompt(name, language) for name in names}
    largest = max(needed, key=needed.__getitem__, default=None)
    if largest is not None and needed[largest] > room:
        seat = largest.partition("_")[0]
        raise UserError(
            f"the context leaves {room} tokens for prompts and the {seat}'s needs at least "
            f"{needed[largest]}: give more context tokens or fewer output tokens, or that seat to the "
            "expert"
        )

"""Before anything starts: is every model there, and will it answer?"""

from collections.abc import Mapping, Sequence

from kernelwright.agents.llm.client import INSTALL
from kernelwright.agents.llm.tape import ReplayOnly, Tape
from kernelwright.core.errors import UserError
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.models import ModelChoice, ModelSettings

OUTPUT_TOKENS = 16
"""Of the one question; the least that every provider accepts."""

HINTS = {
    CallOutcome.UNAUTHORISED: "the server refuses the key",
    CallOutcome.UNKNOWN_MODEL: "the server has no such model, or the base URL is wrong",
    CallOutcome.BAD_REQUEST: "the server refuses the request",
    CallOutcome.DISCONNECTED: "no server answers there",
    CallOutcome.TIMED_OUT: "the server does not answer in time",
    CallOutcome.MALFORMED_REPLY: "what answers there does not speak the protocol; is the base URL right?",
}
"""What ends the run before it begins. Other outcomes pass: a busy server may recover within the run."""


def preflight(
    settings: ModelSettings, tape: Tape | None = None, *, temperatures: Sequence[Mapping[str, float]] = ()
) -> None:
    """Ask every distinct model one tiny question at each temperature that it will be asked at.

    The answers are neither recorded nor charged. Does nothing for a ReplayOnly tape, which asks nobody.

    Args:
        settings: Which models.
        tape: The run's.
        temperatures: By role, one of each recipe that will be played; for roles to which the user gave none.

    Raises:
        UserError: a library or key is missing, or a model would answer none of the run's questions.
    """
    if isinstance(tape, ReplayOnly):
        return
    asked: set[tuple[str, float | None]] = set()
    for recipe in temperatures or ({},):
        as_asked = settings.with_temperatures(recipe)
        for role in ("", *as_asked.roles):
            choice = as_asked.for_role(role)
            if (choice.place, choice.temperature) not in asked:
                _check(settings, choice)
            asked.add((choice.place, choice.temperature))


def _check(settings: ModelSettings, choice: ModelChoice) -> None:
    try:
        # lazy: importing the package must not load a model SDK
        from kernelwright.agents.llm.probe import probe
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("kernelwright"):
            raise
        raise UserError(INSTALL) from None
    alone = settings.model_copy(
        update={
            "model": choice.model,
            "base_url": choice.base_url,
            "max_output_tokens": OUTPUT_TOKENS,
            "temperature": choice.temperature,
            "roles": {},
        }
    )
    failure = probe(alone)
    if failure is not None and failure.outcome in HINTS:
        raise UserError(f"{choice.place}: {HINTS[failure.outcome]} ({failure.detail})")

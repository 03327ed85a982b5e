"""Before anything starts: is every model there, and will it answer?"""

from collections.abc import Mapping, Sequence

from kernelwright.agents.llm.client import INSTALL
from kernelwright.agents.llm.tape import ReplayOnly, Tape
from kernelwright.agents.llm.transport import RequestFailure
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

NO_TOOLS = (CallOutcome.BAD_REQUEST, CallOutcome.SERVER_ERROR)
"""How a server says that it takes no tools."""


def preflight(
    settings: ModelSettings, tape: Tape | None = None, *, temperatures: Sequence[Mapping[str, float]] = ()
) -> tuple[str, ...]:
    """Ask every distinct model one tiny question at each temperature that it will be asked at.

    The answers are neither recorded nor charged. Does nothing for a ReplayOnly tape, which asks nobody.
    Where tools will be offered the question carries one. A server that refuses it is asked once more without.
    Returns the places whose servers take no tools.

    Args:
        settings: Which models.
        tape: The run's.
        temperatures: By role, one of each recipe that will be played; for roles to which the user gave none.

    Raises:
        UserError: a library or key is missing, or a model would answer none of the run's questions.
    """
    if isinstance(tape, ReplayOnly):
        return settings.without_tools
    asked: set[tuple[str, float | None]] = set()
    without_tools = list(settings.without_tools)
    for recipe in temperatures or ({},):
        as_asked = settings.with_temperatures(recipe)
        for role in ("", *as_asked.roles):
            choice = as_asked.for_role(role)
            if (choice.place, choice.temperature) not in asked:
                offers_tool = settings.tool_calls > 0 and choice.place not in without_tools
                if not _takes_tools(settings, choice, offers_tool=offers_tool) and offers_tool:
                    without_tools.append(choice.place)
            asked.add((choice.place, choice.temperature))
    return tuple(without_tools)


def _takes_tools(settings: ModelSettings, choice: ModelChoice, *, offers_tool: bool) -> bool:
    """Ask one question, with a tool first where that is wanted; false where only one without was answered.

    Raises:
        UserError: as ``preflight``.
    """
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
            "effort": None,  # its answer leaves no room to think
            "roles": {},
        }
    )
    if offers_tool:
        failure = probe(alone, offers_tool=True)
        if failure is None or failure.outcome not in NO_TOOLS:
            _refuse(choice, failure)
            return True
    failure = probe(alone)
    _refuse(choice, failure)
    return failure is not None  # a server that is busy has said nothing of tools


def _refuse(choice: ModelChoice, failure: RequestFailure | None) -> None:
    if failure is not None and failure.outcome in HINTS:
        raise UserError(f"{choice.place}: {HINTS[failure.outcome]} ({failure.detail})")

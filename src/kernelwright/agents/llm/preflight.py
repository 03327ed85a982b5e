"""Before anything starts: is every model there, will it answer, and in which forms?"""

from collections.abc import Mapping, Sequence

from kernelwright.agents.llm.client import INSTALL
from kernelwright.agents.llm.tape import ReplayOnly, Tape
from kernelwright.agents.llm.transport import RequestFailure
from kernelwright.core.errors import UserError
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.models import ModelChoice, ModelSettings, OutputMode

OUTPUT_TOKENS = 16
"""Of a question that any answer will do for; the least that every provider accepts."""
MODE_TOKENS = 1024
"""Of one whose form is looked at: a model may think before it answers. Ours."""

HINTS = {
    CallOutcome.UNAUTHORISED: "the server refuses the key",
    CallOutcome.UNKNOWN_MODEL: "the server has no such model, or the base URL is wrong",
    CallOutcome.BAD_REQUEST: "the server refuses the request",
    CallOutcome.DISCONNECTED: "no server answers there",
    CallOutcome.TIMED_OUT: "the server does not answer in time",
    CallOutcome.MALFORMED_REPLY: "what answers there does not speak the protocol; is the base URL right?",
}
"""What ends the run before it begins. Other outcomes pass: a busy server may recover within the run."""

NOT_SO = (CallOutcome.BAD_REQUEST, CallOutcome.SERVER_ERROR)
"""How a server says that it takes no tools, or does not answer in a mode."""


def preflight(
    settings: ModelSettings, tape: Tape | None = None, *, temperatures: Sequence[Mapping[str, float]] = ()
) -> ModelSettings:
    """Ask every distinct model one tiny question at each temperature that it will be asked at.

    The answers are neither recorded nor charged. Does nothing for a ReplayOnly tape, which asks nobody.
    Where tools will be offered the question carries one. With the output mode ``auto`` it is asked in the
    server's native mode first, then for an answer by a tool, then in plain text, until the answer keeps to
    the mode; once for each place. Last it is asked to send its answer piece by piece. Returns the settings
    with what was found out.

    Args:
        settings: Which models.
        tape: The run's.
        temperatures: By role, one of each recipe that will be played; for roles to which the user gave none.

    Raises:
        UserError: a library or key is missing, or a model would answer none of the run's questions.
    """
    if isinstance(tape, ReplayOnly):
        return settings
    asked: set[tuple[str, float | None]] = set()
    for recipe in temperatures or ({},):
        as_asked = settings.with_temperatures(recipe)
        for role in ("", *as_asked.roles):
            choice = as_asked.for_role(role)
            if (choice.place, choice.temperature) not in asked:
                is_new = all(place != choice.place for place, _ in asked)
                settings = _tried(settings, choice, finds_streaming=is_new and settings.stream == "auto")
            asked.add((choice.place, choice.temperature))
    return settings


def _tried(settings: ModelSettings, choice: ModelChoice, *, finds_streaming: bool) -> ModelSettings:
    """Return the settings with what one model takes and keeps to; raises UserError as ``preflight``."""
    place = choice.place
    offers_tool = settings.tool_calls > 0 and place not in settings.without_tools
    finds_mode = settings.output_mode == "auto" and place not in settings.output_modes
    mode, takes_tools = _found_out(settings, choice, offers_tool=offers_tool, finds_mode=finds_mode)
    found: dict[str, object] = {}
    if finds_mode:
        found["output_modes"] = {**settings.output_modes, place: mode}
    if offers_tool and not takes_tools:
        found["without_tools"] = (*settings.without_tools, place)
    if finds_streaming and place not in settings.streaming:
        piecewise = settings.model_copy(update={"streaming": (*settings.streaming, place)})
        if _probed(piecewise, choice, mode, offers_tool=offers_tool and takes_tools) is True:
            found["streaming"] = piecewise.streaming
    return settings.model_copy(update=found)


def _found_out(
    settings: ModelSettings, choice: ModelChoice, *, offers_tool: bool, finds_mode: bool
) -> tuple[OutputMode, bool]:
    """Return the best mode that a model keeps to, and whether its server takes tools."""
    modes: tuple[OutputMode, ...] = ("native", "tool", "prompted") if finds_mode else ("prompted",)
    ways = [(mode, offers_tool) for mode in modes]
    if offers_tool:
        ways += [(mode, False) for mode in modes if mode != "tool"]
    answered: list[bool] = []
    for mode, has_tool in ways:
        if answered and (mode == "prompted" or not has_tool):
            break
        said = _probed(settings, choice, mode, offers_tool=has_tool)
        if isinstance(said, RequestFailure):
            if said.outcome in NOT_SO and (mode, has_tool) != ways[-1]:
                continue
            if said.outcome in HINTS:
                raise UserError(f"{choice.place}: {HINTS[said.outcome]} ({said.detail})")
            return "prompted", True  # a server that is busy has said nothing of what it can
        if said:
            return mode, has_tool
        answered.append(has_tool)
    return "prompted", any(answered)


def _probed(
    settings: ModelSettings, choice: ModelChoice, mode: OutputMode, *, offers_tool: bool
) -> RequestFailure | bool:
    """Ask one question (see ``probe.probe``); raises UserError where a library is missing."""
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
            "max_output_tokens": OUTPUT_TOKENS if mode == "prompted" else MODE_TOKENS,
            "temperature": choice.temperature,
            "effort": None,  # its answer leaves no room to think
            "roles": {},
        }
    )
    return probe(alone, mode, offers_tool=offers_tool)

"""One tiny question to a model, outside of any record."""

from anyio.from_thread import start_blocking_portal
from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from kernelwright.agents.llm.keys import Keys
from kernelwright.agents.llm.models import make_model
from kernelwright.agents.llm.recorded import sdk_settings, send
from kernelwright.agents.llm.transport import RequestFailure
from kernelwright.core.models import ModelSettings

TOOL = ToolDefinition(
    name="ready", parameters_json_schema={"type": "object", "properties": {}}, description="Not needed."
)


def probe(settings: ModelSettings, *, offers_tool: bool = False) -> RequestFailure | None:
    """Send one request to the default model; return how it failed, None when there was any answer.

    With ``offers_tool`` the request carries a tool that it does not need.
    """
    keys = Keys()
    made = make_model(settings, "", keys=keys)
    question = ModelRequest(parts=[UserPromptPart("Answer with the word: ready")])
    parameters = ModelRequestParameters(function_tools=[TOOL] if offers_tool else [])

    async def ask() -> ModelResponse | RequestFailure:
        return await send(settings, "", keys, [question], sdk_settings(settings, "", made), parameters)

    with start_blocking_portal() as portal:
        answer = portal.call(ask)
    return answer if isinstance(answer, RequestFailure) else None

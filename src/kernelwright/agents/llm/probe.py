"""One tiny question to a model, outside of any record."""

from anyio.from_thread import start_blocking_portal
from pydantic import BaseModel, ValidationError
from pydantic_ai import exceptions as sdk
from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from kernelwright.agents.llm.keys import Keys
from kernelwright.agents.llm.models import make_model
from kernelwright.agents.llm.outcomes import raw_text
from kernelwright.agents.llm.recorded import sdk_settings, send
from kernelwright.agents.llm.transport import RequestFailure
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.models import ModelSettings, OutputMode

TOOL = ToolDefinition(
    name="ready", parameters_json_schema={"type": "object", "properties": {}}, description="Not needed."
)


class ProbeAnswer(BaseModel):
    """What the question asks for in a structured mode."""

    word: str


def probe(
    settings: ModelSettings, mode: OutputMode = "prompted", *, offers_tool: bool = False
) -> RequestFailure | bool:
    """Send one request to the default model; return how it failed, else whether the answer keeps to the mode.

    With ``offers_tool`` the request carries a tool that it does not need.
    """
    keys = Keys()
    made = make_model(settings, "", keys=keys)
    question = ModelRequest(parts=[UserPromptPart("Answer with the word: ready")])
    parameters = _parameters(mode, offers_tool=offers_tool)

    async def ask() -> ModelResponse | RequestFailure:
        return await send(settings, "", keys, [question], sdk_settings(settings, "", made), parameters)

    try:
        with start_blocking_portal() as portal:
            answer = portal.call(ask)
    except (sdk.UserError, NotImplementedError) as error:  # the SDK knows that the model cannot answer so
        return RequestFailure(CallOutcome.BAD_REQUEST, " ".join(str(error).split()))
    if isinstance(answer, RequestFailure):
        return answer
    return mode == "prompted" or _is_structured(answer)


def _parameters(mode: OutputMode, *, offers_tool: bool) -> ModelRequestParameters:
    offered, schema = [TOOL] if offers_tool else [], ProbeAnswer.model_json_schema()
    if mode == "native":
        asked = OutputObjectDefinition(name="answer", json_schema=schema)
        return ModelRequestParameters(function_tools=offered, output_mode="native", output_object=asked)
    if mode == "tool":
        tool = ToolDefinition(name="answer", parameters_json_schema=schema, kind="output")
        return ModelRequestParameters(
            function_tools=offered, output_mode="tool", output_tools=[tool], allow_text_output=False
        )
    return ModelRequestParameters(function_tools=offered)


def _is_structured(answer: ModelResponse) -> bool:
    try:
        ProbeAnswer.model_validate_json(raw_text(answer))
    except ValidationError:
        return False
    return True

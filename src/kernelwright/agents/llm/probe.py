"""One tiny question to a model, outside of any record."""

from anyio.from_thread import start_blocking_portal
from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from kernelwright.agents.llm.keys import Keys
from kernelwright.agents.llm.models import make_model
from kernelwright.agents.llm.recorded import sdk_settings, send
from kernelwright.agents.llm.transport import RequestFailure
from kernelwright.core.models import ModelSettings


def probe(settings: ModelSettings) -> RequestFailure | None:
    """Send one request to the default model; return how it failed, None when there was any answer."""
    keys = Keys()
    made = make_model(settings, "", keys=keys)
    question = ModelRequest(parts=[UserPromptPart("Answer with the word: ready")])

    async def ask() -> ModelResponse | RequestFailure:
        return await send(
            settings, "", keys, [question], sdk_settings(settings, "", made), ModelRequestParameters()
        )

    with start_blocking_portal() as portal:
        answer = portal.call(ask)
    return answer if isinstance(answer, RequestFailure) else None

"""What pydantic-ai and the SDKs below it raise or return, as one of our named outcomes."""

import re
from collections.abc import Iterator

from pydantic import ValidationError
from pydantic_ai import exceptions as sdk
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from kernelwright.agents.llm.keys import Keys
from kernelwright.agents.llm.structured import complaints
from kernelwright.agents.llm.transport import RequestFailure
from kernelwright.core.model_call import CallOutcome

MAX_DETAIL = 300
"""Characters of a server's message that we keep; our choice."""

NOT_THE_PROTOCOL = (ValueError, TypeError, LookupError, AttributeError, AssertionError)
"""What an SDK stumbles with over JSON that has not the shape it expects."""

BY_STATUS = {
    401: CallOutcome.UNAUTHORISED,
    402: CallOutcome.UNAUTHORISED,
    403: CallOutcome.UNAUTHORISED,
    404: CallOutcome.UNKNOWN_MODEL,
    408: CallOutcome.TIMED_OUT,
    429: CallOutcome.RATE_LIMITED,
}

BY_KIND: tuple[tuple[type[Exception], CallOutcome], ...] = (
    # An account without credit does not recover within a run, so it is no case for waiting.
    (sdk.ModelQuotaExceededError, CallOutcome.UNAUTHORISED),
    (sdk.ModelAuthenticationError, CallOutcome.UNAUTHORISED),
    (sdk.ModelNotFoundError, CallOutcome.UNKNOWN_MODEL),
    (sdk.ModelContextWindowExceededError, CallOutcome.BAD_REQUEST),
    (sdk.ModelRateLimitError, CallOutcome.RATE_LIMITED),
    (sdk.ModelUnavailableError, CallOutcome.SERVER_ERROR),
    (sdk.ModelServerError, CallOutcome.SERVER_ERROR),
    (sdk.ModelTimeoutError, CallOutcome.TIMED_OUT),
    (sdk.ModelRequestTimeout, CallOutcome.TIMED_OUT),
    (TimeoutError, CallOutcome.TIMED_OUT),
    (sdk.ModelConnectionError, CallOutcome.DISCONNECTED),
    (ConnectionError, CallOutcome.DISCONNECTED),
    (sdk.ContentFilterError, CallOutcome.REFUSED),
    (sdk.ModelRequestRejectedError, CallOutcome.BAD_REQUEST),
    (sdk.UnexpectedModelBehavior, CallOutcome.MALFORMED_REPLY),
    (sdk.ModelAPIError, CallOutcome.MALFORMED_REPLY),
    *((kind, CallOutcome.MALFORMED_REPLY) for kind in NOT_THE_PROTOCOL),
)
"""First match counts."""


class ReplyTooLong(Exception):
    """The server sent more than the settings allow for one answer."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"no end after {limit} bytes")


def failure_of(error: Exception, model_name: str, keys: Keys) -> RequestFailure | None:
    """Return the named failure, None for an exception that is none of the API's doing."""
    too_long = next((cause for cause in _causes(error) if isinstance(cause, ReplyTooLong)), None)
    if too_long is not None:
        return RequestFailure(CallOutcome.TRUNCATED, str(too_long))
    outcome = next((outcome for kind, outcome in BY_KIND if isinstance(error, kind)), None)
    if isinstance(error, sdk.ModelHTTPError):
        outcome = _of_status(error, model_name)
    if outcome is None:
        return None
    wait = error.retry_after if isinstance(error, sdk.ModelAPIError) else None
    return RequestFailure(outcome, _one_line(_message(error), keys), wait)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _of_status(error: sdk.ModelHTTPError, model_name: str) -> CallOutcome:
    status = error.status_code
    if isinstance(error, sdk.ModelQuotaExceededError):
        return CallOutcome.UNAUTHORISED
    if status in (400, 422) and _names_the_model(error, model_name):
        return CallOutcome.UNKNOWN_MODEL
    if status == 403 and not isinstance(error, sdk.ModelAuthenticationError):
        return CallOutcome.REFUSED  # flagged input, as OpenRouter reports it
    if status in BY_STATUS:
        return BY_STATUS[status]
    return CallOutcome.SERVER_ERROR if status >= 500 else CallOutcome.BAD_REQUEST


def _names_the_model(error: sdk.ModelHTTPError, model_name: str) -> bool:
    if isinstance(error, sdk.ModelContextWindowExceededError):
        return False
    if isinstance(error, sdk.ModelNotFoundError) or _field(error, "param") == "model":
        return True
    said = _message(error)
    return model_name in said and bool(re.search(r"not found|(not|n't) exist|unknown|invalid", said, re.I))


def _field(error: sdk.ModelAPIError, name: str) -> object:
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    return body.get(name) if isinstance(body, dict) else None


def _message(error: Exception) -> str:
    """Return what the server said, else what the exception says; never empty."""
    if isinstance(error, TimeoutError):
        return "no complete answer in time"
    if isinstance(error, sdk.ModelConnectionError):
        return next(str(cause) for cause in reversed(list(_causes(error))) if str(cause))
    if isinstance(error.__cause__, ValidationError):
        return complaints(error.__cause__.errors(include_url=False, include_input=False))
    said = None
    if isinstance(error, sdk.ModelAPIError):
        said = _field(error, "message") or (error.body if isinstance(error.body, str) else None)
    if isinstance(error, sdk.ModelHTTPError):
        return f"{error.status_code}: {said or error.body}"
    return str(said or error) or type(error).__name__


def _one_line(text: str, keys: Keys) -> str:
    line = keys.scrub(" ".join(text.split()))
    return line if len(line) <= MAX_DETAIL else line[: MAX_DETAIL - 1] + "…"


def raw_text(response: ModelResponse) -> str:
    """Return what the model wrote: its text, or the arguments of its tool call."""
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = "\n".join(part.args_as_json_str() for part in response.parts if isinstance(part, ToolCallPart))
    return text if text.strip() else calls


def whole(streamed: ModelResponse) -> ModelResponse | RequestFailure:
    """Return a streamed answer that was said to be over; one that only stopped is a failure."""
    if streamed.finish_reason is None or streamed.state != "complete":
        return RequestFailure(CallOutcome.DISCONNECTED, "the stream stopped before the answer was over")
    return streamed


def outcome_of(response: ModelResponse) -> tuple[CallOutcome, str]:
    """Say whether a complete reply holds an answer, and if not, why not."""
    details = response.provider_details or {}
    if response.finish_reason == "content_filter":
        said = details.get("refusal") or raw_text(response) or "stopped by a content filter"
        return CallOutcome.REFUSED, " ".join(str(said).split())[:MAX_DETAIL]
    if response.finish_reason == "length":
        return CallOutcome.TRUNCATED, f"cut off after {response.usage.output_tokens} output tokens"
    if response.finish_reason == "error":
        return CallOutcome.SERVER_ERROR, "the server broke its answer off"
    if not raw_text(response).strip():
        return CallOutcome.EMPTY, "no text in the answer"
    return CallOutcome.OK, ""

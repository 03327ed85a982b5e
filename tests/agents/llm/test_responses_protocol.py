"""OpenAI's Responses protocol over a real local server: what ``openai:NAME`` without a base URL speaks."""

import json

import pytest
from lab.servers.bad_server import (
    BadServer,
    Behaviour,
    Exchange,
    breaks_a_stream,
    hangs,
    resets,
    sends,
    status,
)
from pydantic import BaseModel
from tests.agents.llm.conftest import Scale

from kernelwright.agents.llm.model_client import ModelClient
from kernelwright.agents.llm.preflight import preflight
from kernelwright.agents.llm.tape import MemoryTape
from kernelwright.agents.llm.tools import OfferedTools
from kernelwright.core.budget import Budget, Meter, Spent
from kernelwright.core.errors import ModelUnavailable, UserError
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.models import ModelSettings

MODEL = "openai:gpt-scripted"
KEY = "sk-responses-0123456789"


class Idea(BaseModel):
    """A role's answer."""

    skill: str


def responds(text: str, *, why_incomplete: str | None = None, kind: str = "output_text") -> Behaviour:
    """Answer properly with that text."""
    return lambda exchange: exchange.send_json(200, body_of(message_of(text, kind), why_incomplete))


def calls_a_tool(arguments: dict[str, object], name: str = "final_result") -> Behaviour:
    """Answer properly with a call, by itself of the function that carries structured output."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name,
            "arguments": json.dumps(arguments), "status": "completed"}  # fmt: skip
    return lambda exchange: exchange.send_json(200, body_of(call))


def streams(*texts: str) -> Behaviour:
    """Answer piece by piece."""
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    empty, whole = message_of(""), message_of("".join(texts))
    begun = {**body_of(None), "status": "in_progress", "usage": None}
    events: list[dict[str, object]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**empty, "content": []}},
        {"type": "response.content_part.added", **place, "part": content_of("")},
        *({"type": "response.output_text.delta", **place, "delta": text, "logprobs": []} for text in texts),
        {"type": "response.output_text.done", **place, "text": "".join(texts), "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": body_of(whole)},
    ]

    def behave(exchange: Exchange) -> None:
        exchange.begin_chunks("text/event-stream")
        for number, event in enumerate(events):
            told = json.dumps({**event, "sequence_number": number})
            exchange.chunk(f"event: {event['type']}\ndata: {told}\n\n".encode())
        exchange.end_chunks()

    return behave


def content_of(text: str, kind: str = "output_text") -> dict[str, object]:
    return {"type": kind, "refusal": text} if kind == "refusal" else {
        "type": kind, "text": text, "annotations": []
    }  # fmt: skip


def message_of(text: str, kind: str = "output_text") -> dict[str, object]:
    said = [content_of(text, kind)]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": said}


def body_of(item: dict[str, object] | None, why_incomplete: str | None = None) -> dict[str, object]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "gpt-scripted",
        "status": "completed" if why_incomplete is None else "incomplete",
        "incomplete_details": None if why_incomplete is None else {"reason": why_incomplete},
        "output": [] if item is None else [item],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 11,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 18,
        },
    }


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def connect(server: BadServer, monkeypatch: pytest.MonkeyPatch, **settings: object) -> ModelClient:
    async def no_sleep(seconds: float) -> None:
        """Do not wait."""

    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    chosen = ModelSettings.model_validate({"model": MODEL, **settings})
    return ModelClient(chosen, Meter(Budget(), lambda: 0.0), MemoryTape(), sleep=no_sleep)


def test_a_structured_answer_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with BadServer(responds("I would tile."), responds('{"skill": "tiling"}')) as server:
        client = connect(server, monkeypatch)
        reply = client.ask("planner", "You plan.", "The kernel is slow.", Idea)
        first, second = server.requests
    assert (reply.outcome, reply.value) == (CallOutcome.OK, Idea(skill="tiling"))
    assert first.path == "/v1/responses" and first.headers["authorization"] == f"Bearer {KEY}"
    assert "The kernel is slow." in str(first.body["input"]) and "You plan." in str(first.body)
    assert "no JSON object" in str(second.body["input"])
    assert client._line.meter.spent == Spent(model_calls=2, tokens=36)


@pytest.mark.parametrize(
    ("mode", "bad", "good", "place"),
    [
        ("tool", calls_a_tool({}), calls_a_tool({"skill": "tiling"}), "tools"),
        ("native", responds("{}"), responds('{"skill": "tiling"}'), "text"),
    ],
)
def test_a_structured_answer_by_the_servers_own_means(
    mode: str, bad: Behaviour, good: Behaviour, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BadServer(bad, good) as server:
        client = connect(server, monkeypatch, output_mode=mode)
        assert client.ask("planner", "You plan.", "It is slow.", Idea).value == Idea(skill="tiling")
        first, second = server.requests
    assert "skill" in str(first.body[place]), "the schema"
    assert len(second.body["input"]) > len(first.body["input"])


def test_a_streamed_answer_is_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    with BadServer(streams("hel", "lo")) as server:
        client = connect(server, monkeypatch, streaming=(MODEL,))
        assert client.ask_text("coder", "be brief", "say hello").value == "hello"
        assert server.requests[0].body["stream"] is True
    assert client._line.meter.spent == Spent(model_calls=1, tokens=18)


def test_a_tool_is_carried_out_and_its_words_come_with_the_next_request(
    monkeypatch: pytest.MonkeyPatch, scale: Scale, offered: OfferedTools
) -> None:
    with BadServer(calls_a_tool({"stone": "granite"}, "weigh"), responds("heavy")) as server:
        client = connect(server, monkeypatch)
        assert client.ask_text("coder", "You write.", "Write.", offered).value == "heavy"
        first, second = server.requests
    assert [one.stone for one in scale.carried] == ["granite"]
    assert "weigh" in str(first.body["tools"])
    assert "granite weighs 17 g" in str(second.body["input"])


def test_the_effort_of_a_reasoning_model_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with BadServer(responds("hi")) as server:
        connect(server, monkeypatch, model="openai:gpt-5", effort="low").ask_text(
            "coder", "be brief", "say hello"
        )
    assert server.requests[0].body["reasoning"] == {"effort": "low"}


FAILURES = {
    "429": (status(429), CallOutcome.RATE_LIMITED, 4),
    "500": (status(500), CallOutcome.SERVER_ERROR, 4),
    "reset": (resets(), CallOutcome.DISCONNECTED, 3),
    "a stream that stops": (breaks_a_stream(), CallOutcome.DISCONNECTED, 3),
    "no JSON": (sends(b"hello"), CallOutcome.MALFORMED_REPLY, 2),
    "a changed schema": (sends(b'{"answer": {"text": "hello"}}'), CallOutcome.MALFORMED_REPLY, 2),
    "a prompt too long": (
        status(400, "too long", code="context_length_exceeded"),
        CallOutcome.BAD_REQUEST,
        1,
    ),
    "white space": (responds("  "), CallOutcome.EMPTY, 1),
    "the limit of tokens": (responds("half", why_incomplete="max_output_tokens"), CallOutcome.TRUNCATED, 1),
    "a content filter": (responds("", why_incomplete="content_filter"), CallOutcome.REFUSED, 1),
    "a refusal": (responds("No.", kind="refusal"), CallOutcome.REFUSED, 1),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_has_the_same_name_and_cost_as_in_the_other_protocols(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    behaviour, outcome, n_requests = FAILURES[name]
    with BadServer(behaviour) as server:
        reply = connect(server, monkeypatch).ask_text("coder", "be brief", "say hello")
        assert (reply.outcome, reply.value, len(server.requests)) == (outcome, None, n_requests)
    assert reply.detail and "\n" not in reply.detail


@pytest.mark.parametrize("code", [429, 503])
def test_a_busy_server_is_asked_again_after_the_wait_it_asks_for(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with BadServer(status(code, retry_after="7"), responds("hi")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        chosen = ModelSettings(model=MODEL)
        client = ModelClient(chosen, Meter(Budget(), lambda: 0.0), MemoryTape(), sleep=sleep)
        assert client.ask_text("coder", "be brief", "say hello").value == "hi"
    assert slept == [7.0]


def test_wall_time_is_bounded_where_no_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    with BadServer(hangs()) as server:
        client = connect(server, monkeypatch, timeout_s=0.5)
        assert client.ask_text("coder", "system", "user").outcome is CallOutcome.TIMED_OUT
        assert len(server.requests) <= 2


@pytest.mark.parametrize(("code", "said"), [(401, "unauthorised: 401: no"), (404, "unknown model: 404: no")])
def test_what_cannot_recover_ends_the_run(code: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with BadServer(status(code, "no")) as server:
        with pytest.raises(ModelUnavailable, match=said):
            connect(server, monkeypatch).ask_text("coder", "system", "user")
        with pytest.raises(UserError):
            preflight(ModelSettings(model=MODEL))
        assert len(server.requests) == 2

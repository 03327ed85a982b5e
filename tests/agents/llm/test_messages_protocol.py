"""Anthropic's Messages protocol over a real local server: the same outcomes at the same bounded cost."""

import pytest
from lab.servers.bad_server import (
    BadServer,
    Behaviour,
    breaks_a_stream,
    drips,
    floods,
    hangs,
    resets,
    sends,
)
from lab.servers.messages_protocol import (
    fails,
    message,
    quotes_key,
    replies,
    stops_halfway,
    streams_message,
    uses_tool,
)
from pydantic import BaseModel, Field

from kernelwright.agents.llm.client import Reply
from kernelwright.agents.llm.model_client import ModelClient
from kernelwright.agents.llm.preflight import preflight
from kernelwright.agents.llm.tape import MemoryTape
from kernelwright.core.budget import Budget, Meter, Spent
from kernelwright.core.errors import ModelUnavailable, UserError
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.models import ModelSettings

KEY = "sk-messages-0123456789"
MODEL = "anthropic:claude-scripted"


class Idea(BaseModel):
    """A role's answer."""

    skill: str
    gain: float = Field(ge=0)


GOOD = '{"skill": "tiling", "gain": 0.3}'
IDEA = Idea(skill="tiling", gain=0.3)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_API_KEY", KEY)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def connect(server: BadServer, slept: list[float], **settings: object) -> tuple[ModelClient, Meter]:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    meter = Meter(Budget(), lambda: 0.0)
    chosen = ModelSettings.model_validate({"model": MODEL, "base_url": server.root, **settings})
    return ModelClient(chosen, meter, MemoryTape(), sleep=sleep), meter


def ask(*script: Behaviour, **settings: object) -> tuple[Reply[str], int, list[float]]:
    """Return the reply to one question, the requests it took and the waits between them."""
    slept: list[float] = []
    with BadServer(*script) as server:
        client, meter = connect(server, slept, max_reply_bytes=200_000, **settings)
        reply = client.ask_text("coder", "be brief", "say hello")
        assert len(server.requests) <= meter.spent.model_calls
        return reply, meter.spent.model_calls, slept


def test_a_structured_answer_end_to_end() -> None:
    with BadServer(replies(GOOD)) as server:
        client, meter = connect(server, [], temperature=0.5, max_output_tokens=99)
        reply = client.ask("planner", "You plan.", "The kernel is slow.", Idea)
        (request,) = server.requests
    assert (reply.outcome, reply.value, reply.text) == (CallOutcome.OK, IDEA, GOOD)
    assert request.path.partition("?")[0] == "/v1/messages"
    assert KEY in (request.headers.get("x-api-key") or request.headers["authorization"])
    assert request.headers["anthropic-version"]
    body = request.body
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("claude-scripted", 99, 0.5)
    assert '"skill"' in str(body["system"]), "the schema is in the prompt"
    assert [said["role"] for said in body["messages"]] == ["user"]
    assert "The kernel is slow." in request.text()
    assert "tools" not in body
    assert meter.spent == Spent(model_calls=1, tokens=18)


def test_the_system_part_is_marked_for_the_servers_cache_and_the_question_is_not() -> None:
    with BadServer(replies(GOOD)) as server:
        connect(server, [], effort="low")[0].ask_text("coder", "be brief", "say hello")
        (request,) = server.requests
    assert "cache_control" in str(request.body["system"])
    assert "cache_control" not in str(request.body["messages"])
    assert "thinking" in request.body or "effort" in str(request.body)


def test_the_model_is_told_what_was_wrong_and_mends_it() -> None:
    with BadServer(replies("Tiling would help."), replies(GOOD)) as server:
        client, _ = connect(server, [])
        assert client.ask("planner", "system", "user", Idea).value == IDEA
        roles = [said["role"] for said in server.requests[1].body["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert "no JSON object" in server.requests[1].text()


def test_structured_output_by_a_tool_call() -> None:
    bad, good = uses_tool({"skill": "tiling"}), uses_tool({"skill": "tiling", "gain": 0.3})
    with BadServer(bad, good) as server:
        client, _ = connect(server, [], output_mode="tool")
        reply = client.ask("planner", "system", "user", Idea)
        assert (reply.value, len(server.requests)) == (IDEA, 2)


FAILURES = {
    "429": (fails(429), CallOutcome.RATE_LIMITED, 4),
    "500": (fails(500), CallOutcome.SERVER_ERROR, 4),
    "504": (fails(504), CallOutcome.SERVER_ERROR, 4),
    "529, overloaded": (fails(529), CallOutcome.SERVER_ERROR, 4),
    "reset": (resets(), CallOutcome.DISCONNECTED, 3),
    "half an answer": (stops_halfway(), CallOutcome.DISCONNECTED, 3),
    "a stream that stops": (breaks_a_stream(), CallOutcome.DISCONNECTED, 3),
    "a web page": (sends(b"<html>hello</html>", content_type="text/html"), CallOutcome.MALFORMED_REPLY, 2),
    "no JSON": (sends(b"hello"), CallOutcome.MALFORMED_REPLY, 2),
    "a changed schema": (sends(b'{"answer": {"text": "hello"}}'), CallOutcome.MALFORMED_REPLY, 2),
    "content: null": (sends(b'{"type": "message", "content": null}'), CallOutcome.MALFORMED_REPLY, 2),
    "a list": (sends(b"[1, 2]"), CallOutcome.MALFORMED_REPLY, 2),
    "a prompt too long": (fails(400, "prompt is too long: 300000 tokens"), CallOutcome.BAD_REQUEST, 1),
    "a request too large": (fails(413), CallOutcome.BAD_REQUEST, 1),
    "a flood": (floods(), CallOutcome.TRUNCATED, 1),
    "nothing": (replies(), CallOutcome.EMPTY, 1),
    "white space": (replies(" \n "), CallOutcome.EMPTY, 1),
    "the limit of tokens": (replies("half a", stop_reason="max_tokens"), CallOutcome.TRUNCATED, 1),
    "a refusal": (replies("No.", stop_reason="refusal"), CallOutcome.REFUSED, 1),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_has_the_same_name_and_cost_as_in_the_other_protocol(name: str) -> None:
    behaviour, outcome, n_requests = FAILURES[name]
    reply, asked, slept = ask(behaviour)
    assert (reply.outcome, reply.value) == (outcome, None)
    assert reply.detail and "\n" not in reply.detail
    assert (asked, len(slept)) == (n_requests, n_requests - 1)


FATAL = {
    "401": (fails(401, "invalid x-api-key"), "unauthorised: 401: invalid x-api-key"),
    "402, no credit": (fails(402), "unauthorised"),
    "403": (fails(403), "unauthorised"),
    "404": (fails(404, "model: claude-scripted"), "unknown model: 404: model: claude-scripted"),
}


@pytest.mark.parametrize("name", FATAL)
def test_what_cannot_recover_is_asked_once_and_ends_the_run(name: str) -> None:
    behaviour, said = FATAL[name]
    with BadServer(behaviour) as server:
        client, _ = connect(server, [])
        with pytest.raises(ModelUnavailable, match=said):
            client.ask_text("coder", "system", "user")
        assert len(server.requests) == 1


def test_a_passing_failure_costs_one_more_request_after_the_wait_the_server_asks_for() -> None:
    reply, asked, slept = ask(fails(429, retry_after="7"), replies("hel", "lo"))
    assert (reply.outcome, reply.value, asked, slept) == (CallOutcome.OK, "hello", 2, [7.0])


@pytest.mark.parametrize("behaviour", [hangs(), drips()], ids=["hangs", "drips for ever"])
def test_wall_time_is_bounded_however_the_server_stalls(behaviour: Behaviour) -> None:
    reply, asked, _ = ask(behaviour, timeout_s=0.5)
    assert (reply.outcome, asked) == (CallOutcome.TIMED_OUT, 2)


@pytest.mark.parametrize(
    ("behaviour", "outcome", "n_requests"),
    [
        (streams_message("hel", "lo"), CallOutcome.OK, 1),
        (streams_message("hel", stop_reason="max_tokens"), CallOutcome.TRUNCATED, 1),
        (streams_message("hel", is_whole=False), CallOutcome.DISCONNECTED, 3),
        (fails(529, retry_after="0"), CallOutcome.SERVER_ERROR, 4),
        (breaks_a_stream(), CallOutcome.DISCONNECTED, 3),
    ],
)
def test_a_streamed_answer_comes_to_the_same_outcomes(
    behaviour: Behaviour, outcome: CallOutcome, n_requests: int
) -> None:
    with BadServer(behaviour) as server:
        client, meter = connect(server, [], streaming=(f"{MODEL} at {server.root}",))
        reply = client.ask_text("coder", "be brief", "say hello")
        assert (reply.outcome, meter.spent.model_calls) == (outcome, n_requests)
        assert all(request.body["stream"] for request in server.requests)
    if outcome is CallOutcome.OK:
        assert (reply.value, meter.spent.tokens) == ("hello", 18)


def test_a_key_that_the_server_quotes_is_blacked_out() -> None:
    with BadServer(quotes_key(401)) as server:
        client, _ = connect(server, [])
        with pytest.raises(ModelUnavailable) as raised:
            client.ask_text("coder", "system", "user")
    assert "invalid key" in str(raised.value) and KEY not in str(raised.value)


def test_thinking_is_not_taken_for_the_answer() -> None:
    thinking = {"type": "thinking", "thinking": "maybe fusion?", "signature": "s"}
    body = message(thinking, {"type": "text", "text": GOOD})
    with BadServer(lambda exchange: exchange.send_json(200, body)) as server:
        client, _ = connect(server, [])
        assert client.ask("planner", "system", "user", Idea).text == GOOD


def test_preflight_tells_a_wrong_key_before_anything_starts() -> None:
    with BadServer(fails(401, "invalid x-api-key")) as server:
        with pytest.raises(UserError, match="the server refuses the key") as raised:
            preflight(ModelSettings(model=MODEL, base_url=server.root))
        assert len(server.requests) == 1
    assert "\n" not in str(raised.value)
    with BadServer(replies("ready")) as server:
        preflight(ModelSettings(model=MODEL, base_url=server.url))  # with /v1 as well


def test_the_sdks_own_variable_names_another_address_with_the_providers_own_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with BadServer(replies("ready")) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.root)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
        preflight(ModelSettings(model=MODEL))
        headers = server.requests[0].headers
    assert "sk-ant-0123456789" in (headers.get("x-api-key") or headers["authorization"])

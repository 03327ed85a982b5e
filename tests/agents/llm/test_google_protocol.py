"""Google's protocol over a real local server, which is a stub: the same outcomes at the same bounded cost."""

import json

import pytest
from lab.servers.bad_server import BadServer, Behaviour, Exchange, hangs, resets, sends
from pydantic import BaseModel
from tests.agents.llm.conftest import Scale

from kernelwright.agents.llm.client import Reply
from kernelwright.agents.llm.model_client import ModelClient
from kernelwright.agents.llm.tape import MemoryTape
from kernelwright.agents.llm.tools import OfferedTools
from kernelwright.core.budget import Budget, Meter, Spent
from kernelwright.core.errors import ModelUnavailable
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.models import ModelSettings

pytest.importorskip("google.genai")

KEY = "sk-google-0123456789"


class Idea(BaseModel):
    """What a planner is asked for here."""

    skill: str
    gain: float


IDEA = Idea(skill="tiling", gain=0.3)
GOOD = IDEA.model_dump_json()


def generates(text: str, *, finish: str = "STOP") -> Behaviour:
    """Answer properly with that text, of 7 tokens after 5 of thinking."""
    return answers({"text": text}, finish)


def calls_a_tool(arguments: dict[str, object], name: str = "final_result") -> Behaviour:
    """Answer properly with a call, by itself of the function that carries structured output."""
    return answers({"functionCall": {"name": name, "args": arguments}})


def answers(part: dict[str, object], finish: str = "STOP") -> Behaviour:
    """Answer with one part."""
    return lambda exchange: exchange.send_json(200, body_of(part, finish))


def streams(*texts: str) -> Behaviour:
    """Answer piece by piece."""

    def behave(exchange: Exchange) -> None:
        exchange.begin_chunks("text/event-stream")
        for number, text in enumerate(texts, 1):
            piece = body_of({"text": text}, "STOP" if number == len(texts) else None)
            exchange.chunk(f"data: {json.dumps(piece)}\r\n\r\n".encode())
        exchange.end_chunks()

    return behave


def body_of(part: dict[str, object], finish: str | None) -> dict[str, object]:
    ended = {} if finish is None else {"finishReason": finish}
    return {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0, **ended}],
        "modelVersion": "gemini-scripted",
        "responseId": "r1",
        "usageMetadata": {
            "promptTokenCount": 11,
            "candidatesTokenCount": 7,
            "thoughtsTokenCount": 5,
            "totalTokenCount": 23,
        },
    }


def fails(code: int, *, retry_after: str | None = None) -> Behaviour:
    """Answer with an error in the protocol's form."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    body = {"error": {"code": code, "message": "scripted", "status": "SCRIPTED"}}
    return lambda exchange: exchange.send_json(code, body, headers)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)


def connect(
    server: BadServer, monkeypatch: pytest.MonkeyPatch, slept: list[float], **settings: object
) -> tuple[ModelClient, Meter]:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.root)
    chosen = ModelSettings.model_validate({"model": "google:gemini-scripted", **settings})
    meter = Meter(Budget(), lambda: 0.0)
    return ModelClient(chosen, meter, MemoryTape(), sleep=sleep), meter


def ask(
    monkeypatch: pytest.MonkeyPatch, *script: Behaviour, **settings: object
) -> tuple[Reply[str], Spent, int, list[float]]:
    """Return the reply to one question, what it cost, the requests it took and the waits between them."""
    slept: list[float] = []
    with BadServer(*script) as server:
        client, meter = connect(server, monkeypatch, slept, **settings)
        reply = client.ask_text("coder", "be brief", "hello")
        return reply, meter.spent, len(server.requests), slept


@pytest.mark.parametrize(
    ("mode", "bad", "good"),
    [
        ("prompted", generates("Tiling would help."), generates(f"Here:\n{GOOD}")),
        ("tool", calls_a_tool({"skill": "tiling"}), calls_a_tool(IDEA.model_dump())),
        ("native", generates('{"skill": "tiling"}'), generates(GOOD)),
    ],
)
def test_a_structured_answer_is_asked_for_corrected_and_read(
    mode: str, bad: Behaviour, good: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BadServer(bad, good) as server:
        client, meter = connect(server, monkeypatch, [], output_mode=mode)
        reply = client.ask("planner", "You plan.", "The kernel is slow.", Idea)
        first, second = server.requests
    assert (reply.outcome, reply.value) == (CallOutcome.OK, IDEA)
    assert "models/gemini-scripted:" in first.path and first.headers["x-goog-api-key"] == KEY
    assert "The kernel is slow." in str(first.body["contents"]) and "You plan." in str(first.body)
    config = first.body.get("generationConfig", {})
    asked_for = {
        "prompted": first.body["systemInstruction"],
        "tool": first.body.get("tools"),
        "native": config,
    }
    assert "'gain'" in str(asked_for[mode]) or '"gain"' in str(asked_for[mode]), (
        "the schema is where it belongs"
    )
    assert [said["role"] for said in second.body["contents"]] == ["user", "model", "user"]
    assert meter.spent == Spent(model_calls=2, tokens=46)


def test_an_answer_with_its_thinking_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    reply, spent, n_requests, _ = ask(monkeypatch, generates("hi"))
    assert (reply.outcome, reply.value, n_requests) == (CallOutcome.OK, "hi", 1)
    assert spent == Spent(model_calls=1, tokens=23)


def test_a_streamed_answer_is_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    with BadServer(streams("hel", "lo")) as server:
        client, meter = connect(server, monkeypatch, [], streaming=("google:gemini-scripted",))
        assert client.ask_text("coder", "be brief", "say hello").value == "hello"
        assert "streamGenerateContent" in server.requests[0].path
    assert meter.spent == Spent(model_calls=1, tokens=23)


def test_a_tool_is_carried_out_and_its_words_come_with_the_next_request(
    monkeypatch: pytest.MonkeyPatch, scale: Scale, offered: OfferedTools
) -> None:
    with BadServer(calls_a_tool({"stone": "granite"}, "weigh"), generates("heavy")) as server:
        client, meter = connect(server, monkeypatch, [])
        assert client.ask_text("coder", "You write.", "Write.", offered).value == "heavy"
        first, second = server.requests
    assert [one.stone for one in scale.carried] == ["granite"] and meter.spent.model_calls == 2
    assert "weigh" in str(first.body["tools"])
    assert "granite weighs 17 g" in str(second.body["contents"][-1]["parts"])


FAILURES = {
    "500": (fails(500), CallOutcome.SERVER_ERROR, 4),
    "reset": (resets(), CallOutcome.DISCONNECTED, 3),
    "no JSON": (sends(b"hello"), CallOutcome.MALFORMED_REPLY, 2),
    "a prompt too long": (fails(400), CallOutcome.BAD_REQUEST, 1),
    "the limit of tokens": (generates("half", finish="MAX_TOKENS"), CallOutcome.TRUNCATED, 1),
    "a content filter": (generates("", finish="SAFETY"), CallOutcome.REFUSED, 1),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_has_the_same_name_and_cost_as_in_the_other_protocols(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    behaviour, outcome, cost = FAILURES[name]
    reply, _, n_requests, _ = ask(monkeypatch, behaviour)
    assert (reply.outcome, reply.value, n_requests) == (outcome, None, cost)
    assert reply.detail and "\n" not in reply.detail


@pytest.mark.parametrize("code", [429, 503])
def test_a_busy_server_is_asked_again_after_the_wait_it_asks_for(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply, _, n_requests, slept = ask(monkeypatch, fails(code, retry_after="7"), generates("hi"))
    assert (reply.value, n_requests, slept) == ("hi", 2, [7.0])


def test_wall_time_is_bounded_where_no_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    reply, *_ = ask(monkeypatch, hangs(), timeout_s=0.5)
    assert reply.outcome is CallOutcome.TIMED_OUT


@pytest.mark.parametrize(("code", "said"), [(401, "unauthorised"), (404, "unknown model")])
def test_what_cannot_recover_ends_the_run(code: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelUnavailable, match=said):
        ask(monkeypatch, fails(code))

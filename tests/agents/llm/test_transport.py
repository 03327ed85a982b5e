"""Whatever an API does: a named outcome, a bounded number of requests, bounded time."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from lab.servers.bad_server import (
    BadServer,
    Behaviour,
    breaks_a_stream,
    drips,
    floods,
    hangs,
    refuses,
    resets,
    says,
    sends,
    status,
    stops_midway,
    streams,
)

from kernelwright.agents.llm.client import Reply
from kernelwright.agents.llm.model_client import ModelClient
from kernelwright.agents.llm.tape import MemoryTape
from kernelwright.agents.llm.transport import MAX_TRIES, MAX_WAIT_S, RETRIES, RequestFailure, RequestPatience
from kernelwright.core.budget import Budget, Meter
from kernelwright.core.errors import BudgetUsedUp, ModelUnavailable
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.models import ModelSettings


@dataclass
class Waits:
    """A clock that sleeping moves on."""

    seconds: float = 0.0
    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds

    def now(self) -> float:
        return self.seconds


@dataclass
class Asked:
    """What one question to a misbehaving server led to."""

    reply: Reply[str]
    n_requests: int
    waits: Waits
    meter: Meter


def ask(
    *script: Behaviour, budget: Budget | None = None, timeout_s: float = 20.0, is_streamed: bool = False
) -> Asked:
    waits = Waits()
    meter = Meter(budget or Budget(), waits.now)
    with BadServer(*script) as server:
        settings = ModelSettings(
            model="openai:scripted",
            base_url=server.url,
            timeout_s=timeout_s,
            max_reply_bytes=200_000,
            streaming=(f"openai:scripted at {server.url}",) if is_streamed else (),
        )
        client = ModelClient(settings, meter, MemoryTape(), sleep=waits.sleep)
        reply = client.ask_text("coder", "be brief", "say hello")
        return Asked(reply, len(server.requests), waits, meter)


FAILURES = {
    "429": (status(429), CallOutcome.RATE_LIMITED, 4),
    "500": (status(500), CallOutcome.SERVER_ERROR, 4),
    "502": (status(502), CallOutcome.SERVER_ERROR, 4),
    "503": (status(503), CallOutcome.SERVER_ERROR, 4),
    "529": (status(529), CallOutcome.SERVER_ERROR, 4),
    "reset": (resets(), CallOutcome.DISCONNECTED, 3),
    "half an answer": (stops_midway(), CallOutcome.DISCONNECTED, 3),
    "a stream that stops": (breaks_a_stream(), CallOutcome.DISCONNECTED, 3),
    "a web page": (sends(b"<html>hello</html>", content_type="text/html"), CallOutcome.MALFORMED_REPLY, 2),
    "no JSON": (sends(b"hello"), CallOutcome.MALFORMED_REPLY, 2),
    "no bytes": (sends(b""), CallOutcome.MALFORMED_REPLY, 2),
    "a changed schema": (sends(b'{"answer": {"text": "hello"}}'), CallOutcome.MALFORMED_REPLY, 2),
    "choices: null": (sends(b'{"choices": null}'), CallOutcome.MALFORMED_REPLY, 2),
    "no choice": (
        sends(b'{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[]}'),
        CallOutcome.MALFORMED_REPLY,
        2,
    ),
    "a list": (sends(b"[1, 2]"), CallOutcome.MALFORMED_REPLY, 2),
    "text that is no Unicode": (says("a\ud800b"), CallOutcome.MALFORMED_REPLY, 2),
    "a prompt too long": (
        status(400, "maximum context length is 4096 tokens", code="context_length_exceeded"),
        CallOutcome.BAD_REQUEST,
        1,
    ),
    "a parameter unknown to the model": (
        status(400, "'temperature' is not supported by scripted", param="temperature"),
        CallOutcome.BAD_REQUEST,
        1,
    ),
    "a request too large": (status(413), CallOutcome.BAD_REQUEST, 1),
    "a flood": (floods(), CallOutcome.TRUNCATED, 1),
    "nothing": (says(""), CallOutcome.EMPTY, 1),
    "white space": (says(" \n "), CallOutcome.EMPTY, 1),
    "null": (says(None), CallOutcome.EMPTY, 1),
    "the limit of tokens": (says("half a", finish_reason="length"), CallOutcome.TRUNCATED, 1),
    "a content filter": (says(None, finish_reason="content_filter"), CallOutcome.REFUSED, 1),
    "a refusal": (refuses("No."), CallOutcome.REFUSED, 1),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_has_a_name_and_a_bounded_cost(name: str) -> None:
    behaviour, outcome, n_requests = FAILURES[name]
    asked = ask(behaviour)
    assert (asked.reply.outcome, asked.reply.value) == (outcome, None)
    assert asked.reply.detail and "\n" not in asked.reply.detail
    assert asked.n_requests == asked.meter.spent.model_calls == n_requests
    assert len(asked.waits.slept) == n_requests - 1


@pytest.mark.parametrize("behaviour", [hangs(), drips()], ids=["hangs", "drips for ever"])
def test_wall_time_is_bounded_however_the_server_stalls(behaviour: Behaviour) -> None:
    asked = ask(behaviour, timeout_s=0.5)
    assert asked.reply.outcome is CallOutcome.TIMED_OUT
    assert asked.n_requests <= asked.meter.spent.model_calls == 2


def test_a_streamed_answer_is_taken_together_and_charged_as_counted() -> None:
    asked = ask(streams("hel", "lo"), is_streamed=True)
    assert (asked.reply.value, asked.meter.spent.tokens, asked.n_requests) == ("hello", 18, 1)


def test_the_time_limit_of_a_streamed_answer_counts_from_its_last_piece() -> None:
    slow = streams(*"hello", interval_s=0.3)
    assert ask(slow, timeout_s=1.2, is_streamed=True).reply.value == "hello"
    stalling = ask(streams("hel", "lo", interval_s=2.0), timeout_s=0.5, is_streamed=True)
    assert stalling.reply.outcome is CallOutcome.TIMED_OUT


STREAMED_FAILURES = {
    "the limit of tokens": (streams("half a", finish_reason="length"), CallOutcome.TRUNCATED, 1),
    "nothing": (streams(), CallOutcome.EMPTY, 1),
    "no end": (streams("hel", finish_reason=None), CallOutcome.MALFORMED_REPLY, 2),
    "no stream": (says("hello"), CallOutcome.MALFORMED_REPLY, 2),
    "a stream that stops": (breaks_a_stream(), CallOutcome.DISCONNECTED, 3),
    "a flood": (floods(), CallOutcome.TRUNCATED, 1),
    "500": (status(500), CallOutcome.SERVER_ERROR, 4),
    "429": (status(429), CallOutcome.RATE_LIMITED, 4),
}


@pytest.mark.parametrize("name", STREAMED_FAILURES)
def test_a_streamed_failure_has_a_name_and_a_bounded_cost(name: str) -> None:
    behaviour, outcome, n_requests = STREAMED_FAILURES[name]
    asked = ask(behaviour, is_streamed=True)
    assert (asked.reply.outcome, asked.reply.value) == (outcome, None)
    assert asked.reply.detail and "\n" not in asked.reply.detail
    assert asked.n_requests == asked.meter.spent.model_calls == n_requests


FATAL = {
    "401": (status(401, "no such key"), "unauthorised: 401: no such key"),
    "403": (status(403), "unauthorised"),
    "402": (status(402), "unauthorised"),
    "an empty account": (
        status(429, "You exceeded your current quota", code="insufficient_quota"),
        "unauthorised",
    ),
    "404": (status(404, "no such model"), "unknown model: 404: no such model"),
    "400 that names the model": (status(400, "model 'scripted' does not exist"), "unknown model"),
    "400 about the parameter": (status(400, "bad value", param="model"), "unknown model"),
}


@pytest.mark.parametrize("name", FATAL)
def test_what_cannot_recover_is_asked_once_and_ends_the_run(name: str) -> None:
    behaviour, said = FATAL[name]
    with BadServer(behaviour) as server:
        settings = ModelSettings(model="openai:scripted", base_url=server.url)
        client = ModelClient(settings, Meter(Budget(), lambda: 0.0), MemoryTape())
        with pytest.raises(ModelUnavailable, match=said):
            client.ask_text("coder", "system", "user")
        assert len(server.requests) == 1
        assert client.account.every_call_failed


def test_a_server_that_nobody_runs_is_disconnected() -> None:
    with BadServer(says("never asked")) as server:
        url = server.url
    waits = Waits()
    settings = ModelSettings(model="openai:scripted", base_url=url)
    client = ModelClient(settings, Meter(Budget(), waits.now), MemoryTape(), sleep=waits.sleep)
    reply = client.ask_text("coder", "system", "user")
    assert reply.outcome is CallOutcome.DISCONNECTED
    assert "onnect" in reply.detail


@pytest.mark.parametrize("behaviour", [status(429), status(503), resets(), sends(b"nonsense")])
def test_a_passing_failure_costs_one_more_request(behaviour: Behaviour) -> None:
    asked = ask(behaviour, says("hello"))
    assert (asked.reply.outcome, asked.reply.value) == (CallOutcome.OK, "hello")
    assert asked.n_requests == asked.meter.spent.model_calls == 2


def test_the_server_says_how_long_to_wait_in_seconds() -> None:
    assert ask(status(429, retry_after="7"), says("hello")).waits.slept == [7.0]


def test_the_server_says_how_long_to_wait_by_a_date() -> None:
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    (slept,) = ask(status(503, retry_after=when), says("hello")).waits.slept
    assert 0 < slept <= 40


@pytest.mark.parametrize("wish", ["86400", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_no_server_makes_us_wait_longer_than_a_minute(wish: str) -> None:
    assert ask(status(429, retry_after=wish), says("hello")).waits.slept == [MAX_WAIT_S]


@pytest.mark.parametrize("nonsense", ["soon", "-5", "nan", ""])
def test_without_a_sensible_wish_we_back_off_ourselves(nonsense: str) -> None:
    (slept,) = ask(status(429, retry_after=nonsense), says("hello")).waits.slept
    assert 0.5 <= slept <= 1.0


def test_waiting_ends_with_the_budget_of_seconds() -> None:
    waits = Waits(seconds=95.0)
    meter = Meter(Budget(seconds=100.0), waits.now)
    with BadServer(status(429, retry_after="30")) as server:
        settings = ModelSettings(model="openai:scripted", base_url=server.url)
        client = ModelClient(settings, meter, MemoryTape(), sleep=waits.sleep)
        with pytest.raises(BudgetUsedUp) as raised:
            client.ask_text("coder", "system", "user")
        assert raised.value.amount == "seconds"
        assert (waits.slept, len(server.requests)) == ([5.0], 1)


def test_a_budget_of_calls_counts_every_try() -> None:
    with pytest.raises(BudgetUsedUp) as raised:
        ask(status(500), budget=Budget(model_calls=2))
    assert raised.value.amount == "model_calls"


def test_our_retries_are_the_only_ones() -> None:
    asked = ask(status(500, retry_after="2"))
    assert asked.n_requests == MAX_TRIES
    assert asked.waits.slept == [2.0] * (MAX_TRIES - 1)


@pytest.mark.parametrize("seed", range(50))
def test_any_mixture_of_failures_ends(seed: int) -> None:
    rng = random.Random(seed)
    patience, waits = RequestPatience(rng), []
    while (wait := patience.wait_after(RequestFailure(rng.choice(list(RETRIES)), ""))) is not None:
        waits.append(wait)
    assert len(waits) < MAX_TRIES
    assert all(0.5 <= wait <= MAX_WAIT_S for wait in waits)


def test_waits_grow_and_repeat_with_the_seed() -> None:
    def waits(seed: int) -> list[float | None]:
        patience = RequestPatience(random.Random(seed))
        return [patience.wait_after(RequestFailure(CallOutcome.RATE_LIMITED, "")) for _ in range(4)]

    first = waits(1)
    assert first == waits(1) != waits(2)
    assert first[-1] is None
    assert [1 <= (wait or 0) / 2**n * 2 <= 2 for n, wait in enumerate(first[:3])] == [True] * 3

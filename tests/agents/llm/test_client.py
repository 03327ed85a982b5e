"""One question in, one named outcome out, over a real local server."""

import asyncio
import logging
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Literal

import pytest
from lab.servers.bad_server import (
    BadServer,
    Behaviour,
    Request,
    answers,
    calls_tool,
    echoes_key,
    hangs,
    refuses,
    resets,
    says,
    status,
    streams,
)
from pydantic import BaseModel, Field

from kernelwright.agents.llm.answer_counts import Account
from kernelwright.agents.llm.client import Client
from kernelwright.agents.llm.connect import make_client
from kernelwright.agents.llm.keys import Keys
from kernelwright.agents.llm.model_client import MAX_FAILURES_IN_A_ROW, ModelClient
from kernelwright.agents.llm.tape import FolderTape, MemoryTape
from kernelwright.core.budget import Budget, Meter, Spent
from kernelwright.core.errors import BudgetUsedUp, ModelUnavailable, UserError
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.models import ModelSettings, OutputMode, RoleModel


class Idea(BaseModel):
    """A role's answer."""

    skill: str
    gain: float = Field(ge=0)


GOOD = '{"skill": "tiling", "gain": 0.3}'
IDEA = Idea(skill="tiling", gain=0.3)


async def no_sleep(seconds: float) -> None:
    """Do not wait."""


def connect(
    server: BadServer,
    budget: Budget | None = None,
    *,
    tape: MemoryTape | FolderTape | None = None,
    output_mode: OutputMode = "auto",
    **settings: object,
) -> tuple[ModelClient, Meter]:
    meter = Meter(budget or Budget(), lambda: 0.0)
    chosen = ModelSettings.model_validate(
        {"model": "openai:scripted", "base_url": server.url, "output_mode": output_mode, **settings}
    )
    return ModelClient(chosen, meter, tape or MemoryTape(), sleep=no_sleep), meter


def test_a_structured_answer_end_to_end() -> None:
    with BadServer(says(GOOD)) as server:
        meter = Meter(Budget(), lambda: 0.0)
        settings = ModelSettings(model="openai:scripted", base_url=server.url, temperature=0.5)
        client: Client = make_client(settings, meter, MemoryTape())
        reply = client.ask("planner", "You plan.", "The kernel is slow.", Idea)
        (request,) = server.requests
    assert (reply.outcome, reply.value, reply.text) == (CallOutcome.OK, IDEA, GOOD)
    assert request.path == "/v1/chat/completions"
    assert request.body["model"] == "scripted"
    assert (request.body["max_tokens"], request.body["temperature"]) == (8192, 0.5)
    system, user = request.body["messages"]
    assert system["content"].startswith("You plan.")
    assert '"skill"' in system["content"], "the schema is in the prompt"
    assert user == {"role": "user", "content": "The kernel is slow."}
    assert "tools" not in request.body and "response_format" not in request.body
    assert meter.spent == Spent(model_calls=1, tokens=18)
    assert client.account.sentence() == "the one answer was usable"


def test_why_an_answer_could_not_be_used_is_stored_with_it(tmp_path: Path) -> None:
    for tape in (MemoryTape(), FolderTape(tmp_path)):
        with BadServer(says("Tiling would help."), says(GOOD), says("prose")) as server:
            client, _ = connect(server, tape=tape)
            assert client.ask("planner", "system", "user", Idea).value == IDEA
            client.ask_text("coder", "system", "user")
            client.note("coder", CallOutcome.NO_CODE, "no block")
        refused, used, prose = tape.calls()
        assert {call.outcome for call in (refused, used, prose)} == {CallOutcome.OK}, "the transport's"
        assert refused.judged is CallOutcome.INVALID_OUTPUT and "no JSON object" in refused.judged_detail
        assert (used.judged, used.judged_detail) == (None, "")
        assert (prose.judged, prose.judged_detail) == (CallOutcome.NO_CODE, "no block")
    assert list(FolderTape(tmp_path).calls()) == list(tape.calls()), "read again"


@pytest.mark.parametrize(
    ("mode", "bad", "good"),
    [
        ("native", says('{"skill": "tiling"}'), says(GOOD)),
        ("tool", calls_tool({"skill": "tiling"}), calls_tool({"skill": "tiling", "gain": 0.3})),
    ],
)
def test_so_it_is_where_json_is_asked_for_otherwise(
    mode: OutputMode, bad: Behaviour, good: Behaviour
) -> None:
    for given, n_refused in (((bad, good), 1), ((bad, bad, bad), 3)):
        tape = MemoryTape()
        with BadServer(*given) as server:
            client, _ = connect(server, tape=tape, output_mode=mode)
            client.ask("planner", "system", "user", Idea)
        calls = list(tape.calls())
        assert [call.judged for call in calls[:n_refused]] == [CallOutcome.INVALID_OUTPUT] * n_refused
        assert "gain" in calls[0].judged_detail and "required" in calls[0].judged_detail
        assert all(call.judged is None for call in calls[n_refused:])


def test_reasoning_effort_is_asked_for_only_where_it_is_named() -> None:
    with BadServer(says(GOOD), says(GOOD)) as server:
        connect(server, effort="high", temperature=0.5)[0].ask_text("coder", "system", "user")
        connect(server)[0].ask_text("coder", "system", "user")
        named, unnamed = (request.body for request in server.requests)
    assert (named["reasoning_effort"], named["temperature"]) == ("high", 0.5)
    assert "reasoning_effort" not in unnamed


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Sure! Here is my idea:\n{GOOD}\nI hope that helps {{a lot}}.",
        f"<think>maybe {{x}}</think>{GOOD}",
        f"{GOOD}\n{GOOD}",
        '{"skill": "tiling", "gain": "0.3"}',
    ],
)
def test_json_is_found_whatever_stands_around_it(text: str) -> None:
    with BadServer(says(text)) as server:
        client, _ = connect(server)
        assert client.ask("planner", "system", "user", Idea).value == IDEA
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Tiling would help.", "no JSON object"),
        ('{"skill": "tiling"}', "gain: Field required"),
        ('{"skill": "tiling", "gain": -1}', "gain: Input should be greater than or equal to 0"),
        (f'{GOOD} {{"skill": "fusion", "gain": 1}}', "2 different JSON objects"),
        ('{"skill": "tiling", "gain"', "breaks at line 1, column 27"),
    ],
)
def test_the_model_is_told_what_was_wrong_and_mends_it(text: str, complaint: str) -> None:
    with BadServer(says(text), says(GOOD)) as server:
        client, meter = connect(server)
        assert client.ask("planner", "system", "user", Idea).value == IDEA
        roles = [message["role"] for message in server.requests[1].body["messages"]]
        assert roles == ["system", "user", "assistant", "user"]
        told = server.requests[1].body["messages"][-1]["content"]
    assert complaint in told
    assert meter.spent.model_calls == 2


@pytest.mark.parametrize("output_mode", ["prompted", "native"])
def test_a_model_that_never_mends_it_is_told_twice(output_mode: OutputMode) -> None:
    with BadServer(says("I would rather talk.")) as server:
        client, meter = connect(server, output_mode=output_mode)
        reply = client.ask("planner", "system", "user", Idea)
        assert (reply.outcome, reply.value) == (CallOutcome.INVALID_OUTPUT, None)
        assert reply.text == "I would rather talk."
        assert reply.detail and "\n" not in reply.detail
        assert len(server.requests) == meter.spent.model_calls == 3


def test_structured_output_by_a_tool_call() -> None:
    with BadServer(calls_tool({"skill": "tiling"}), calls_tool({"skill": "tiling", "gain": 0.3})) as server:
        client, _ = connect(server, output_mode="tool")
        reply = client.ask("planner", "system", "user", Idea)
        assert (reply.value, len(server.requests)) == (IDEA, 2)
        assert server.requests[0].body["messages"][0]["content"] == "system"


def test_structured_output_by_the_servers_own_schema_mode() -> None:
    with BadServer(says(GOOD)) as server:
        client, _ = connect(server, output_mode="native")
        assert client.ask("planner", "system", "user", Idea).value == IDEA
        assert server.requests[0].body["response_format"]["type"] == "json_schema"
        assert '"gain"' in server.requests[0].text(), "a server that holds to a schema may not show it"


def test_auto_asks_in_the_mode_that_was_found_for_the_place() -> None:
    with BadServer(calls_tool({"skill": "tiling", "gain": 0.3}), says(GOOD)) as server:
        place = f"openai:scripted at {server.url}"
        client, _ = connect(
            server, output_modes={place: "tool"}, roles={"coder": RoleModel(model="openai:other")}
        )
        assert client.ask("planner", "system", "user", Idea).value == IDEA
        assert client.ask("coder", "system", "user", Idea).value == IDEA
        assert ["tools" in request.body for request in server.requests] == [True, False]


def test_a_streamed_tool_call_is_put_together() -> None:
    pieces = [
        {"tool_calls": [{"index": 0, "function": {"arguments": part}, **begin}]}
        for part, begin in (("", {"id": "1", "type": "function"}), (GOOD[:9], {}), (GOOD[9:], {}))
    ]
    pieces[0]["tool_calls"][0]["function"]["name"] = "final_result"  # type: ignore[index]
    with BadServer(streams(*pieces, finish_reason="tool_calls")) as server:
        client, meter = connect(server, output_mode="tool", streaming=(f"openai:scripted at {server.url}",))
        assert client.ask("planner", "system", "user", Idea).value == IDEA
        assert (len(server.requests), meter.spent.tokens) == (1, 18)


def test_a_tool_call_that_nobody_asked_for_is_no_text() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    with BadServer(says(None, message={"tool_calls": [call]})) as server:
        client, _ = connect(server)
        assert client.ask_text("coder", "system", "user").outcome is CallOutcome.EMPTY
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        (says(""), CallOutcome.EMPTY),
        (refuses(), CallOutcome.REFUSED),
        (says('{"skill": "til', finish_reason="length"), CallOutcome.TRUNCATED),
    ],
)
def test_no_use_in_telling_an_empty_a_refused_or_a_cut_off_answer(
    behaviour: object, outcome: CallOutcome
) -> None:
    with BadServer(behaviour) as server:  # type: ignore[arg-type]
        client, _ = connect(server)
        assert client.ask("planner", "system", "user", Idea).outcome is outcome
        assert len(server.requests) == 1


def test_every_role_has_its_own_model_temperature_and_server() -> None:
    roles = {"planner": RoleModel(model="openai:thinker", temperature=1.0, max_output_tokens=99)}
    with BadServer(says(GOOD)) as server, BadServer(says("elsewhere")) as other:
        roles["coder"] = RoleModel(base_url=other.url)
        client, _ = connect(server, roles=roles, temperature=0.0)
        client.ask("planner", "system", "user", Idea)
        client.ask_text("debugger", "system", "user")
        assert client.ask_text("coder", "system", "user").text == "elsewhere"
        asked = [(r.body["model"], r.body["temperature"], r.body["max_tokens"]) for r in server.requests]
    assert asked == [("thinker", 1.0, 99), ("scripted", 0.0, 8192)]
    assert len(other.requests) == 1


@pytest.mark.parametrize(
    ("budget", "n_requests"),
    [
        (Budget(model_calls=3), 3),
        (Budget(tokens=40), 3),
        (Budget(usd=0.0001), 3),
        (Budget(model_calls=0), 0),
    ],
)
def test_nothing_is_sent_once_the_budget_is_used_up(budget: Budget, n_requests: int) -> None:
    with BadServer(says("hello")) as server:
        client, meter = connect(server, budget, usd_per_million_input=1.0, usd_per_million_output=4.0)
        with pytest.raises(BudgetUsedUp):
            for _ in range(10):
                client.ask_text("coder", "system", "user")
        assert len(server.requests) == meter.spent.model_calls == n_requests
        assert meter.spent.usd == pytest.approx(n_requests * (11 * 1.0 + 7 * 4.0) / 1e6)


def test_the_budget_also_ends_the_mending_of_one_answer() -> None:
    with BadServer(says("prose")) as server:
        client, _ = connect(server, Budget(model_calls=2))
        with pytest.raises(BudgetUsedUp):
            client.ask("planner", "system", "user", Idea)
        assert len(server.requests) == 2


def test_tokens_count_even_where_the_server_does_not_count_them() -> None:
    with BadServer(says("x" * 300, usage=None)) as server:
        client, meter = connect(server)
        client.ask_text("coder", "system", "y" * 600)
    assert meter.spent.tokens > 300


def test_thinking_is_counted_and_priced_as_output() -> None:
    usage: dict[str, Any] = {
        "prompt_tokens": 1000, "completion_tokens": 5000, "total_tokens": 6000,
        "completion_tokens_details": {"reasoning_tokens": 4900},
    }  # fmt: skip
    tape = MemoryTape()
    with BadServer(says(GOOD, usage=usage)) as server:
        client, meter = connect(server, tape=tape, usd_per_million_input=1.0, usd_per_million_output=10.0)
        assert client.ask("planner", "system", "user", Idea).value == IDEA
    (call,) = tape.calls()
    assert (call.input_tokens, call.output_tokens) == (1000, 5000)
    assert meter.spent.tokens == 6000 and meter.spent.usd == pytest.approx(0.051)


def test_an_api_that_is_down_ends_the_run() -> None:
    with BadServer(resets()) as server:
        client, _ = connect(server)
        for _ in range(MAX_FAILURES_IN_A_ROW):
            assert client.ask_text("coder", "system", "user").outcome is CallOutcome.DISCONNECTED
        with pytest.raises(ModelUnavailable, match="failed 6 times in a row"):
            client.ask_text("coder", "system", "user")
    assert client.account.every_call_failed
    assert client.account.sentence() == "every call failed: 6 disconnected"


def test_one_good_answer_gives_the_api_new_credit() -> None:
    script = [status(400)] * MAX_FAILURES_IN_A_ROW + [says("hello")]
    with BadServer(*script, *script) as server:
        client, _ = connect(server)
        outcomes = [client.ask_text("coder", "system", "user").outcome for _ in range(2 * len(script))]
    assert outcomes.count(CallOutcome.OK) == 2


def test_the_account_takes_what_the_roles_made_of_the_answers() -> None:
    with BadServer(says("hello")) as server:
        client, _ = connect(server)
        for _ in range(4):
            client.ask_text("coder", "system", "user")
            client.note("coder", CallOutcome.NO_CODE, "no code block")
        client.ask("planner", "system", "user", Idea)
        client.ask_text("coder", "system", "user")
        client.ask_text("debugger", "system", "user")
    account = client.account
    assert (account.total, account.usable, account.unusable) == (7, 2, 5)
    assert account.outcomes == {
        CallOutcome.NO_CODE: 4,
        CallOutcome.OK: 2,
        CallOutcome.INVALID_OUTPUT: 1,
    }
    assert account.by_name() == {"no_code": 4, "ok": 2, "invalid_output": 1}
    assert account.sentence() == "5 of 7 answers were unusable: 4 no code, 1 invalid output"
    assert not account.every_call_failed


def test_an_account_of_nothing() -> None:
    assert Account().sentence() == "no question was asked of a model"
    assert not Account().every_call_failed


def test_it_works_where_an_event_loop_is_running_already() -> None:
    with BadServer(says("hello")) as server:
        client, _ = connect(server)

        async def notebook() -> str:
            return client.ask_text("coder", "system", "user").text

        assert asyncio.run(notebook()) == "hello"


def test_no_thread_outlives_a_question() -> None:
    with BadServer(says("hello")) as server:
        client, _ = connect(server)
        client.ask_text("coder", "system", "user")
        ours = [t.name for t in threading.enumerate() if "portal" in t.name.lower()]
    assert ours == []


def test_text_that_is_no_unicode_is_sent_all_the_same() -> None:
    with BadServer(answers(Request.text)) as server:
        client, _ = connect(server)
        assert client.ask_text("coder", "system", "a\ud800b").value == "system\na?b"


KEY = "sk-do-not-tell-anybody-0123456789"


def secret_settings(url: str) -> ModelSettings:
    return ModelSettings(model="openai:scripted", base_url=url)


@pytest.mark.parametrize("code", [400, 401, 429, 500])
def test_a_key_appears_nowhere_even_when_the_server_quotes_it(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}-of-openai")
    caplog.set_level(logging.DEBUG)
    shown = []
    with BadServer(echoes_key(code), answers(lambda request: request.headers["authorization"])) as server:
        assert KEY not in repr(Keys())
        tape = FolderTape(tmp_path)
        client = ModelClient(secret_settings(server.url), Meter(Budget(), lambda: 0.0), tape, sleep=no_sleep)
        for _ in range(2):
            try:
                shown.append(repr(client.ask_text("coder", "system", f"my key is {KEY}")))
            except ModelUnavailable:
                shown.append(traceback.format_exc())
        sent = server.requests[0]
        shown += [repr(client), repr(vars(client)), repr(client.account.outcomes)]
    assert sent.headers["authorization"] == f"Bearer {KEY}", "the server itself does get the key"
    recorded = (tmp_path / "calls.jsonl").read_text(encoding="utf-8")
    assert recorded.count("\n") >= 2
    for text in (recorded, caplog.text, *shown):
        assert KEY not in text


def test_openais_key_goes_to_no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNELWRIGHT_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with BadServer(says("hello")) as server:
        client, _ = connect(server)
        client.ask_text("coder", "system", "user")
    assert all(KEY not in value for value in server.requests[0].headers.values())


def test_without_the_libraries_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("kernelwright.agents.llm.")]:
        if name.rpartition(".")[2] in ("model_client", "models", "outcomes", "recorded", "probe"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    settings = ModelSettings(model="openai:x", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(UserError, match=r"pip install 'kernelwright\[llm\]'"):
        make_client(settings, Meter(Budget(), time.monotonic), MemoryTape())


def test_spans_are_optional() -> None:
    with BadServer(says("hello")) as server:
        client, _ = connect(server, instrument=True)
        assert client.ask_text("coder", "system", "user").value == "hello"


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs inherit that it is ignored
from kernelwright.agents.llm.connect import make_client
from kernelwright.agents.llm.tape import MemoryTape
from kernelwright.core.budget import Budget, Meter
from kernelwright.core.models import ModelSettings

settings = ModelSettings(model="openai:m", base_url=sys.argv[1], timeout_s=600)
client = make_client(settings, Meter(Budget(), lambda: 0.0), MemoryTape())
try:
    client.ask_text("coder", "system", "user")
except KeyboardInterrupt:
    sys.exit(7)
"""


def test_an_interrupt_ends_a_question_that_hangs() -> None:
    with BadServer(hangs()) as server:
        process = subprocess.Popen([sys.executable, "-c", INTERRUPTED, server.url], stderr=subprocess.PIPE)
        while not server.requests and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=300)
    assert process.returncode == 7, told.decode()


Choice = Literal["a", "b"]


class Strict(BaseModel):
    """A schema with the corners that the project's nouns have."""

    model_config = {"extra": "forbid", "frozen": True}
    moves: tuple[Idea, ...]
    choice: Choice


def test_a_nested_frozen_schema_is_validated_as_json() -> None:
    text = '{"moves": [{"skill": "tiling", "gain": 0.3}], "choice": "b"}'
    with BadServer(says(text[:-1] + ', "extra": 1}'), says(text)) as server:
        client, _ = connect(server)
        reply = client.ask("designer", "system", "user", Strict)
        assert reply.value == Strict(moves=(IDEA,), choice="b")
        assert "extra: Extra inputs are not permitted" in server.requests[1].text()

"""One clear line before anything starts."""

import json

import pytest
from lab.servers.bad_server import (
    BadServer,
    Behaviour,
    Exchange,
    calls,
    echoes_key,
    hangs,
    resets,
    says,
    sends,
    status,
    streams,
    where_streamed,
    without_format,
    without_tools,
)
from pydantic_ai import exceptions as sdk

from kernelwright.agents.llm.preflight import preflight
from kernelwright.agents.llm.probe import probe
from kernelwright.agents.llm.tape import MemoryTape, ReplayOnly
from kernelwright.agents.llm.transport import RequestFailure
from kernelwright.core.errors import UserError
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.models import ModelSettings, RoleModel


def settings_for(server: BadServer, **settings: object) -> ModelSettings:
    return ModelSettings.model_validate(
        {"model": "openai:m", "base_url": server.url, "output_mode": "prompted", "stream": "off", **settings}
    )


def test_a_model_that_answers_passes_at_the_price_of_one_tiny_request() -> None:
    with BadServer(says("ready")) as server:
        preflight(settings_for(server, temperature=0.3))
        (request,) = server.requests
    assert request.body["max_tokens"] == 16
    assert request.body["temperature"] == 0.3


def test_every_distinct_model_is_asked_once_at_each_temperature() -> None:
    with BadServer(says("ready")) as server:
        roles = {
            "planner": RoleModel(model="openai:other"),
            "coder": RoleModel(model="openai:other", temperature=1.0),
            "debugger": RoleModel(temperature=0.0),
            "analyst": RoleModel(temperature=0.0),
        }
        preflight(settings_for(server, roles=roles))
        asked = [(request.body["model"], request.body.get("temperature")) for request in server.requests]
    assert asked == [("m", None), ("other", None), ("other", 1.0), ("m", 0.0)]


def test_models_are_asked_at_the_temperatures_of_the_recipes_that_will_ask_them() -> None:
    recipes = [{"planner": 0.8, "coder": 0.1}, {}, {"coder": 0.1, "debugger": 0.7}]
    with BadServer(says("ready")) as server:
        preflight(settings_for(server, roles={"debugger": RoleModel(temperature=0.2)}), temperatures=recipes)
        asked = [request.body.get("temperature") for request in server.requests]
    assert asked == [None, 0.2, 0.8, 0.1], "the user's own temperature goes before a recipe's"


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (status(401, "wrong"), r"refuses the key \(401: wrong\)"),
        (status(403), "refuses the key"),
        (status(404, "none"), r"no such model, or the base URL is wrong \(404: none\)"),
        (status(400, "model 'm' does not exist"), "no such model"),
        (status(400, "temperature is not supported"), "refuses the request"),
        (sends(b"<html></html>", content_type="text/html"), "does not speak the protocol"),
        (sends(b'{"hello": 1}'), "does not speak the protocol"),
        (resets(), "no server answers"),
    ],
)
def test_a_model_that_would_never_answer_is_one_line(behaviour: Behaviour, said: str) -> None:
    with BadServer(behaviour) as server:
        with pytest.raises(UserError, match=said) as raised:
            preflight(settings_for(server))
        assert str(raised.value).startswith(f"openai:m at {server.url}: ")
        assert "\n" not in str(raised.value)
        assert len(server.requests) <= 2, "a request that is refused is sent once more, without a tool"


def test_a_server_that_hangs_is_one_line() -> None:
    with BadServer(hangs()) as server, pytest.raises(UserError, match="does not answer in time"):
        preflight(settings_for(server, timeout_s=0.3))


def test_no_server_is_one_line() -> None:
    with BadServer(says("never")) as server:
        settings = settings_for(server)
    with pytest.raises(UserError, match="no server answers there"):
        preflight(settings)


@pytest.mark.parametrize(
    "behaviour", [status(429), status(503), says(""), says("cut", finish_reason="length")]
)
def test_what_may_pass_within_the_run_passes(behaviour: Behaviour) -> None:
    with BadServer(behaviour) as server:
        assert preflight(settings_for(server)).without_tools == ()
        assert len(server.requests) <= 2, "one with a tool, one without where the server itself fails"


def test_no_key_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UserError, match="no key; set OPENAI_API_KEY"):
        preflight(ModelSettings(model="openai:gpt-5"))


def test_the_key_is_not_in_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_API_KEY", "sk-very-secret-1234")
    with BadServer(echoes_key(401)) as server:
        with pytest.raises(UserError) as raised:
            preflight(settings_for(server))
        assert "sk-very-secret-1234" in server.requests[0].headers["authorization"]
    assert "sk-very-secret" not in str(raised.value)


def test_a_replay_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    preflight(ModelSettings(model="openai:gpt-5"), ReplayOnly(MemoryTape()))


@pytest.mark.parametrize("code", [400, 422, 500, 501])
def test_a_server_that_takes_no_tools_is_asked_without_and_remembered(code: int) -> None:
    with BadServer(without_tools(code, says("ready"))) as server:
        settings = settings_for(server, roles={"coder": RoleModel(temperature=0.1)})
        assert preflight(settings).without_tools == (f"openai:m at {server.url}",)
        offered = ["tools" in request.body for request in server.requests]
    assert offered == [True, False, False], "the second temperature asks without at once"
    refused = settings.model_copy(update={"without_tools": (f"openai:m at {server.url}",)})
    assert refused.tool_calls_of("coder") == refused.tool_calls_of("") == 0
    assert settings.tool_calls_of("coder") == 3


def test_a_server_that_takes_tools_is_asked_once() -> None:
    with BadServer(says("ready")) as server:
        assert preflight(settings_for(server)).without_tools == ()
        assert ["tools" in request.body for request in server.requests] == [True]


def test_where_no_tools_are_wanted_the_question_has_none() -> None:
    with BadServer(says("ready")) as server:
        assert preflight(settings_for(server, tool_calls=0)).without_tools == ()
        assert ["tools" in request.body for request in server.requests] == [False]


def able(*modes: str, takes_tools: bool = True) -> Behaviour:
    """Keep to these modes of structured answers; say a word in any other, refuse tools where asked to."""
    word = {"word": "ready"}

    def behave(exchange: Exchange) -> None:
        body = exchange.request.body
        names = [tool["function"]["name"] for tool in body.get("tools", ())]
        if names and not takes_tools:
            status(400, "no tools")(exchange)
        elif "response_format" in body and "native" in modes:
            says(json.dumps(word))(exchange)
        elif "answer" in names and "tool" in modes:
            calls(("answer", word))(exchange)
        else:
            says("ready")(exchange)

    return behave


@pytest.mark.parametrize(
    ("behaviour", "mode", "takes_tools", "n_requests"),
    [
        (able("native", "tool"), "native", True, 1),
        (able("tool"), "tool", True, 2),
        (able(), "prompted", True, 2),
        (able("native", takes_tools=False), "native", False, 4),
        (able(takes_tools=False), "prompted", False, 4),
        (without_format(400, able("tool")), "tool", True, 2),
        (without_format(500, able()), "prompted", True, 2),
        (says("cut off", finish_reason="length"), "prompted", True, 2),
        (says('```json\n{"word": "ready"}\n```'), "prompted", True, 2),
        (status(429), "prompted", True, 1),
    ],
)
def test_the_best_mode_that_a_server_keeps_to_is_found_once(
    behaviour: Behaviour, mode: str, takes_tools: bool, n_requests: int
) -> None:
    with BadServer(behaviour) as server:
        settings = settings_for(server, output_mode="auto", roles={"coder": RoleModel(temperature=0.1)})
        found = preflight(settings)
        assert len(server.requests) == n_requests + 1, "the second temperature asks nothing of modes"
        assert found.output_mode_of("coder") == found.output_mode_of("planner") == mode
        assert (found.without_tools == ()) is takes_tools
        again = len(server.requests)
        assert preflight(found) == found and len(server.requests) == again + 2
    assert settings.output_mode_of("planner") == "prompted", "what nobody tried out is asked for in words"


def test_a_mode_that_the_user_names_is_not_tried_out() -> None:
    with BadServer(able()) as server:
        found = preflight(settings_for(server, output_mode="tool"))
        assert found.output_mode_of("planner") == "tool" and found.output_modes == {}
        assert len(server.requests) == 1


def test_a_model_that_the_provider_lists_without_a_native_mode_is_asked_for_a_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(settings: ModelSettings, mode: str = "prompted", *, offers_tool: bool = False) -> object:
        return RequestFailure(CallOutcome.BAD_REQUEST, "not supported") if mode == "native" else True

    monkeypatch.setattr("kernelwright.agents.llm.probe.probe", refuse)
    found = preflight(ModelSettings(model="openai:m", base_url="http://127.0.0.1:1/v1"))
    assert found.output_mode_of("planner") == "tool"


@pytest.mark.parametrize(
    ("streamed", "can_stream"),
    [
        (streams("ready"), True),
        (says("ready"), False),
        (status(400, "stream is not supported"), False),
        (streams("ready", finish_reason=None), False),
        (status(503), False),
    ],
)
def test_whether_a_server_streams_is_found_once_for_its_place(streamed: Behaviour, can_stream: bool) -> None:
    with BadServer(where_streamed(streamed, says("ready"))) as server:
        settings = settings_for(server, stream="auto", roles={"coder": RoleModel(temperature=0.1)})
        found = preflight(settings)
        assert found.streaming == ((f"openai:m at {server.url}",) if can_stream else ())
        asked = [bool(request.body.get("stream")) for request in server.requests]
        assert asked == [False, True, can_stream]


def test_streaming_that_is_off_is_not_tried() -> None:
    with BadServer(streams("ready")) as server:
        with pytest.raises(UserError, match="does not speak the protocol"):
            preflight(settings_for(server))
        assert not any(request.body.get("stream") for request in server.requests)


@pytest.mark.parametrize(
    "error", [sdk.UserError("native is not supported"), NotImplementedError("no stream")]
)
def test_what_the_sdk_knows_to_be_impossible_is_a_refusal(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr("kernelwright.agents.llm.probe.send", refuse)
    failure = probe(ModelSettings(model="openai:m", base_url="http://127.0.0.1:1/v1"), "native")
    assert failure == RequestFailure(CallOutcome.BAD_REQUEST, str(error))

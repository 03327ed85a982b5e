"""``kernelwright optimize`` with models: what is wrong is said before anything starts, and no key gets out.

Server, client, engine, store and command line are real; the referee and the machine's peaks are scripted.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab.servers.bad_server import BadServer, Request, answers, echoes_key, says, status
from lab.servers.playing_model import PlayingModel, ScriptedReferee

from kernelwright.store.base import Store

Optimize = Callable[..., Any]
MIXED = "expert+planner=llm,coder=llm"


def server_options(server: BadServer, team: str = "llm") -> list[str]:
    return ["--team", team, "--model", "openai:scripted", "--base-url", server.url]


def assert_nothing_started(result: Any, store: Store, referee: ScriptedReferee, said: str) -> None:
    assert result.code == 2
    lines = result.err.strip().splitlines()
    assert len(lines) == 1 and said in lines[0], result.err
    assert "Traceback" not in result.err
    assert list(store.iter_runs()) == []
    assert referee.task is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--team", "llm"], "give --model PROVIDER:NAME"),
        (["--team", "llm", "--model", "nonsense:x"], "unknown provider 'nonsense'"),
        (["--team", "llm", "--model", "gpt"], "must be written as provider:name"),
        (["--team", "llm", "--model", "openai:gpt-5"], "no key; set OPENAI_API_KEY"),
        (["--team", "expert+poet=llm", "--model", "openai:gpt-5"], "no seat 'poet'"),
        (["--model", "openai:gpt-5"], "has no seat for a model"),
    ],
    ids=["no model", "unknown provider", "no provider", "no key", "unknown seat", "no seat"],
)
def test_what_cannot_be_is_one_line_before_anything_starts(
    optimize: Optimize, store: Store, referee: ScriptedReferee, words: list[str], said: str
) -> None:
    assert_nothing_started(optimize(*words), store, referee, said)


@pytest.mark.parametrize(
    ("code", "said"), [(401, "the server refuses the key"), (404, "the server has no such model")]
)
def test_a_server_that_will_answer_nothing_is_one_line_before_anything_starts(
    optimize: Optimize, store: Store, referee: ScriptedReferee, code: int, said: str
) -> None:
    with BadServer(status(code)) as server:
        result = optimize(*server_options(server))
        assert len(server.requests) == 1
    assert_nothing_started(result, store, referee, said)


def test_no_server_is_one_line_before_anything_starts(
    optimize: Optimize, store: Store, referee: ScriptedReferee
) -> None:
    with BadServer(says("gone")) as server:
        words = server_options(server)
    assert_nothing_started(optimize(*words), store, referee, "no server answers there")


def test_a_budget_in_dollars_needs_a_price(
    optimize: Optimize, store: Store, referee: ScriptedReferee
) -> None:
    with BadServer(says("ready")) as server:
        result = optimize(*server_options(server), "--budget-usd", "1")
        assert server.requests == []
    assert_nothing_started(result, store, referee, "price")


def test_a_price_can_be_given_for_every_model_of_a_mixed_team(optimize: Optimize, store: Store) -> None:
    other = ["--calls", "separate", "--role-model", "coder=openai:other@0.3", "--price", "openai:other=3,4"]
    with BadServer(answers(PlayingModel())) as server:
        words = [*server_options(server, MIXED), *other, "--price", "1000,2000"]
        result = optimize(*words, "--budget-usd", "0.06", "--budget-evaluations", "9")
    assert result.code == 0
    said = " ".join(result.out.split())
    assert "the budget of usd is used up" in said
    assert "tokens and 0.0" in said and "USD by the prices of when the run began." in said
    record = next(store.iter_runs())
    assert record.spec.models is not None
    given = {price.model.split(" ")[0]: price for price in record.spec.models.prices}
    assert (given["openai:scripted"].usd_per_million_input, given["openai:other"].usd_per_million_output) == (
        1000,
        4,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("openai:nobody=1,2", "no role asks openai:nobody; models: openai:scripted"),
        ("1", "expected two numbers"),
        ("-1,2", "expected two numbers"),
        ("nan,1", "expected two numbers"),
        ("openai:scripted=", "expected two numbers"),
    ],
)
def test_a_price_that_is_none_is_one_line(
    optimize: Optimize, store: Store, referee: ScriptedReferee, text: str, said: str
) -> None:
    with BadServer(says("ready")) as server:
        result = optimize(*server_options(server), "--price", text)
    assert_nothing_started(result, store, referee, said)


def test_models_are_asked_at_the_recipes_temperatures_before_anything_starts(
    optimize: Optimize, store: Store, referee: ScriptedReferee
) -> None:
    with BadServer(says("ready"), status(400, "temperature 0.8 is not supported")) as server:
        result = optimize(*server_options(server), "--recipe", "stark")
        asked = [(request.body.get("temperature"), "tools" in request.body) for request in server.requests]
        assert asked == [*[(None, True)] * 3, (0.8, True), (0.8, False)]
    assert_nothing_started(result, store, referee, "temperature 0.8 is not supported")


def test_a_context_without_room_for_the_prompts_is_one_line_before_anything_starts(
    optimize: Optimize, store: Store, referee: ScriptedReferee
) -> None:
    with BadServer(says("ready")) as server:
        words = [*server_options(server), "--context-tokens", "2048", "--max-output-tokens", "1024"]
        result = optimize(*words)
        assert server.requests == []
    assert_nothing_started(result, store, referee, "the context leaves 1024 tokens for prompts")


def test_a_run_in_which_every_call_failed_says_so_exits_2_and_keeps_the_experts_best(
    optimize: Optimize, store: Store
) -> None:
    with BadServer(says("ready"), status(500, retry_after="0")) as server:
        result = optimize(*server_options(server, MIXED))
        assert 1 < len(server.requests) < 60
    assert result.code == 2
    assert "every call to the model failed" in result.err
    assert "class ModelNew" in Path("relu_sum_fast.py").read_text(encoding="utf-8")
    assert "faster than eager" in result.out
    assert next(store.iter_runs()).state.value == "finished"


def test_a_budget_of_model_calls_ends_the_run_says_so_and_keeps_the_best(
    optimize: Optimize, store: Store
) -> None:
    with BadServer(answers(PlayingModel())) as server:
        result = optimize(*server_options(server, MIXED), "--budget-calls", "3")
        assert len(server.requests) == 3 + 3  # the questions before the run are not charged
    assert result.code == 0
    assert "the budget of model calls is used up" in result.err + result.out
    said = " ".join(result.out.split())
    assert "answers were usable." in said and "3 requests to models took 54 tokens" in said
    assert Path("relu_sum_fast.py").exists()


def test_the_key_gets_out_nowhere(optimize: Optimize, tmp_path: Path) -> None:
    key = os.environ["KERNELWRIGHT_API_KEY"]

    def quote_key(request: Request) -> str:
        return f"My key is {request.headers['authorization']}."

    with BadServer(says("ready"), *[answers(quote_key)] * 3, echoes_key(401)) as server:
        result = optimize(*server_options(server), "--json")
        assert key in server.requests[0].headers["authorization"]
        assert len(server.requests) == 5
    assert key not in result.out + result.err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"runs.db", "relu_sum_report.html"} <= {path.name for path in files}
    assert [path.name for path in files if key.encode() in path.read_bytes()] == []

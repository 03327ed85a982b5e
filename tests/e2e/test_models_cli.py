"""``kernelwright optimize`` with models: what is wrong is said before anything starts, and no key gets out.

Server, client, engine, store and command line are real; the referee and the machine's peaks are scripted.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelwright.store.base import Store
from kernelwright.testing.bad_server import BadServer, Request, answers, echoes_key, says, status
from kernelwright.testing.playing_model import PlayingModel, ScriptedReferee

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
        assert len(server.requests) == 1 + 3  # the question before the run is not charged
    assert result.code == 0
    assert "the budget of model calls is used up" in result.err + result.out
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

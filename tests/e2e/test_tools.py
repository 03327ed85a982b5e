"""A whole run whose model asks tools: recorded, accounted for, and played again without carrying one out."""

from pathlib import Path

import pytest
from lab.servers.bad_server import BadServer, Exchange, answers, calls
from lab.servers.playing_model import TASK, PlayingModel, ScriptedReferee
from tests.e2e.conftest import MACHINE, Play

from kernelwright import api
from kernelwright.agents.llm.tools import Tool
from kernelwright.core.budget import Budget
from kernelwright.core.models import ModelSettings
from kernelwright.core.run import RunSpec
from kernelwright.runs.recorded_run import save_run
from kernelwright.runs.recording import RecordedMachine
from kernelwright.settings import Settings
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store


class Asking:
    """A stub of a model: asks for a skill before its first answers, then plays on."""

    def __init__(self) -> None:
        self._play = answers(PlayingModel())

    def __call__(self, exchange: Exchange) -> None:
        said = [message["role"] for message in exchange.request.body["messages"]]
        names = [tool["function"]["name"] for tool in exchange.request.body.get("tools", ())]
        if "read_skill" in names and "tool" not in said:
            calls(("read_skill", {"name": "streaming-stores"}))(exchange)
        else:
            self._play(exchange)


def test_a_run_with_tools_is_recorded_and_played_again(
    play: Play, store: Store, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BadServer(Asking()) as server:
        models = ModelSettings(model="openai:scripted", base_url=server.url, tool_calls=1)
        spec = RunSpec(
            task=TASK,
            recipe="refine",
            team="llm",
            models=models,
            budget=Budget(evaluations=3),
            baselines=("eager",),
            is_cold=True,
        )
        outcome = play(spec, ScriptedReferee())
        n_requests = len(server.requests)
    made = list(store.iter_model_calls(outcome.run_id))
    asked = [call for call in made if call.tool is not None]
    assert asked and all("streaming-stores: " in (call.response or "") for call in asked)
    assert outcome.spent.model_calls == n_requests == len(made) - len(asked)
    assert sum(outcome.answers.values()) < n_requests, "a turn is no answer"
    monkeypatch.setattr(Tool, "use", lambda *_: pytest.fail("a replay carries nothing out"))
    if outcome.winner is None:
        pytest.fail(outcome.reason)
    save_run(store, outcome.run_id, tmp_path / "recorded", RecordedMachine(machine=MACHINE))
    again = api.replay_run(tmp_path / "recorded", store=open_store("sqlite://"), settings=settings)
    assert (again.reason, again.winner) == (outcome.reason, outcome.winner)
    assert again.spent.model_calls == outcome.spent.model_calls


def test_a_run_without_tools_offers_none(play: Play) -> None:
    with BadServer(answers(PlayingModel())) as server:
        models = ModelSettings(model="openai:scripted", base_url=server.url, tool_calls=0)
        spec = RunSpec(
            task=TASK,
            recipe="best-of-n",
            team="llm",
            models=models,
            budget=Budget(evaluations=1),
            is_cold=True,
        )
        play(spec, ScriptedReferee())
        assert server.requests and all("tools" not in request.body for request in server.requests)

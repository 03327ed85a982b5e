"""Whole runs whose requests are sent several at once: all are charged, and they play again."""

from pathlib import Path

import pytest
from lab.servers.bad_server import BadServer, answers
from lab.servers.playing_model import TASK, PlayingModel, ScriptedReferee
from tests.e2e.conftest import MACHINE, Play

from kernelwright import api
from kernelwright.core.budget import Budget
from kernelwright.core.models import ModelSettings
from kernelwright.core.run import RunSpec
from kernelwright.runs.recorded_run import save_run
from kernelwright.runs.recording import RecordedMachine
from kernelwright.settings import Settings
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store


@pytest.mark.parametrize("recipe", ["fsr", "cupilot"])
def test_every_request_of_a_run_is_charged_and_what_was_recorded_plays_again(
    recipe: str, play: Play, store: Store, settings: Settings, tmp_path: Path
) -> None:
    spent = []
    for concurrency in (1, 4):
        with BadServer(answers(PlayingModel())) as server:
            models = ModelSettings(model="openai:scripted", base_url=server.url, concurrency=concurrency)
            spec = RunSpec(
                task=TASK, recipe=recipe, team="llm", models=models, budget=Budget(evaluations=10),
                baselines=("eager",), is_cold=True,
            )  # fmt: skip
            outcome = play(spec, ScriptedReferee())
            before_the_run = len(server.requests) - outcome.spent.model_calls
        spent.append((outcome.spent.evaluations, before_the_run))
    assert spent[0] == spent[1], "what is asked before a run is the same"
    save_run(store, outcome.run_id, tmp_path / "recorded", RecordedMachine(machine=MACHINE))
    replayed = open_store("sqlite://")
    again = api.replay_run(tmp_path / "recorded", store=replayed, settings=settings)
    assert (again.winner, again.spent.model_calls) == (outcome.winner, outcome.spent.model_calls)
    assert list(replayed.iter_candidates(again.run_id)) == list(store.iter_candidates(outcome.run_id))

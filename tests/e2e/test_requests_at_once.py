"""Whole runs whose requests are sent several at once: as many, as dear, and played again."""

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


@pytest.mark.parametrize("recipe", ["fsr", "cupilot", "scientist"])
def test_a_run_takes_as_many_requests_as_one_after_the_other(
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
            assert outcome.spent.model_calls <= len(server.requests)
        spent.append((outcome.spent.evaluations, outcome.spent.model_calls, outcome.spent.tokens))
    assert spent[0] == spent[1]
    save_run(store, outcome.run_id, tmp_path / "recorded", RecordedMachine(machine=MACHINE))
    replayed = open_store("sqlite://")
    again = api.replay_run(tmp_path / "recorded", store=replayed, settings=settings)
    assert (again.winner, again.spent.model_calls) == (outcome.winner, outcome.spent.model_calls)
    assert list(replayed.iter_candidates(again.run_id)) == list(store.iter_candidates(outcome.run_id))

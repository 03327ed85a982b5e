"""A whole run whose answers hold several kernels: all are judged within the budget, and played again."""

from collections import Counter
from pathlib import Path

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

EVALUATIONS = 8


def test_every_kernel_of_an_answer_is_a_candidate_of_that_call(
    play: Play, store: Store, settings: Settings, tmp_path: Path
) -> None:
    with BadServer(answers(PlayingModel())) as server:
        spec = RunSpec(
            task=TASK,
            recipe="kernelskill",
            team="llm",
            models=ModelSettings(model="openai:scripted", base_url=server.url, kernels_per_call=2),
            budget=Budget(evaluations=EVALUATIONS),
            baselines=("eager",),
            is_cold=True,
        )
        outcome = play(spec, ScriptedReferee())
        n_requests = len(server.requests)
    calls = {call.key: call for call in store.iter_model_calls(outcome.run_id)}
    candidates = list(store.iter_candidates(outcome.run_id))
    origins = Counter(candidate.call for candidate in candidates)
    assert set(origins) <= set(calls) and max(origins.values()) == 2
    assert outcome.spent.evaluations == len(candidates) == EVALUATIONS
    assert {"generator", "coder"} <= {c.role for c in candidates if origins[c.call] == 2}
    assert n_requests < EVALUATIONS
    save_run(store, outcome.run_id, tmp_path / "recorded", RecordedMachine(machine=MACHINE))
    replayed = open_store("sqlite://")
    again = api.replay_run(tmp_path / "recorded", store=replayed, settings=settings)
    assert (again.winner, again.spent.model_calls) == (outcome.winner, outcome.spent.model_calls)
    assert list(replayed.iter_candidates(again.run_id)) == candidates

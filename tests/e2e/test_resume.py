"""A killed run of a model team is carried on without asking anything twice."""

from pathlib import Path
from typing import Any

import pytest
from lab.servers.bad_server import BadServer, answers
from lab.servers.playing_model import TASK, PlayingModel, ScriptedReferee
from tests.marks import first_quick

from kernelwright import api
from kernelwright.agents.problem import Problem
from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.machine import Machine
from kernelwright.core.model_call import Price
from kernelwright.core.models import ModelSettings
from kernelwright.core.run import RunSpec
from kernelwright.runs.loop import RunOutcome
from kernelwright.runs.prepare import prepare_on
from kernelwright.settings import Settings
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import PEAKS

N_EVALUATIONS = 7


class Killed(BaseException):
    """Stands for kill -9: nothing may catch it."""


class KillingReferee(ScriptedReferee):
    """Dies in the middle of its nth evaluation."""

    def __init__(self, nth: int) -> None:
        super().__init__()
        self._nth = nth

    def evaluate(self, candidate: Candidate, **more: object) -> Evaluation:
        if len(self.asked) + 1 == self._nth:
            raise Killed
        return super().evaluate(candidate, **more)  # type: ignore[arg-type]


def prepare(spec: RunSpec, cache_dir: Path) -> tuple[Problem, str | None]:
    return prepare_on(spec, Machine(peaks=PEAKS))


def spec_for(server: BadServer, recipe: str) -> RunSpec:
    models = ModelSettings(model="openai:scripted", base_url=server.url)
    budget = Budget(evaluations=N_EVALUATIONS)
    return RunSpec(task=TASK, recipe=recipe, team="llm", models=models, budget=budget)


@pytest.mark.slow
def test_a_resumed_run_keeps_to_the_prices_that_it_began_with(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Store = open_store(tmp_path / "killed.db")
    tools: dict[str, Any] = {"store": store, "settings": settings, "prepare": prepare}
    price = Price(
        model="openai:scripted", usd_per_million_input=100.0, usd_per_million_output=100.0, source="then"
    )
    with BadServer(answers(PlayingModel())) as server:
        at = price.model_copy(update={"model": f"openai:scripted at {server.url}"})
        monkeypatch.setattr("kernelwright.agents.llm.prices.find_price", lambda choice: at)
        with pytest.raises(Killed):
            api.play(spec_for(server, "refine"), referee=KillingReferee(3), **tools)
        dearer = at.model_copy(update={"usd_per_million_input": 1e6})
        monkeypatch.setattr("kernelwright.agents.llm.prices.find_price", lambda choice: dearer)
        run_id = next(store.iter_runs()).run_id
        resumed = api.carry_on(run_id, referee=ScriptedReferee(), **tools)
    models = store.get_run(run_id).spec.models
    assert models is not None and models.prices == (at,)
    assert resumed.spent.usd == pytest.approx(resumed.spent.model_calls * at.cost(11, 7))


def told(outcome: RunOutcome) -> tuple[object, ...]:
    assert outcome.winner is not None
    return outcome.winner.id, outcome.reason, outcome.answers, outcome.spent.model_calls


@pytest.mark.parametrize(
    ("recipe", "killed_in"), first_quick([("kernelskill", 2), ("kernelskill", 6), ("stark", 4)])
)
def test_a_resumed_run_asks_nothing_again_and_ends_the_same(
    tmp_path: Path, settings: Settings, recipe: str, killed_in: int
) -> None:
    with BadServer(answers(PlayingModel())) as server:
        whole = api.play(
            spec_for(server, recipe),
            store=open_store(tmp_path / "whole.db"),
            settings=settings,
            referee=ScriptedReferee(),
            prepare=prepare,
        )
        n_requests = len(server.requests)
    store: Store = open_store(tmp_path / "killed.db")
    with BadServer(answers(PlayingModel())) as server:
        with pytest.raises(Killed):
            api.play(
                spec_for(server, recipe),
                store=store,
                settings=settings,
                referee=KillingReferee(killed_in),
                prepare=prepare,
            )
        asked_before = len(server.requests)
        run_id = next(store.iter_runs()).run_id
        resumed = api.carry_on(
            run_id, store=store, settings=settings, referee=ScriptedReferee(), prepare=prepare
        )
        assert 0 < asked_before < len(server.requests) == n_requests
    assert told(resumed) == told(whole)

"""A budget of what models cost ends a run, and what was paid for by then is judged."""

import re
from collections import Counter
from collections.abc import Callable

import pytest
from lab.servers.bad_server import BadServer, answers, status
from lab.servers.playing_model import TASK, PlayingModel, ScriptedReferee, block, kernel
from tests.marks import mostly_slow

from kernelwright.core.budget import Budget
from kernelwright.core.errors import UserError
from kernelwright.core.events import MoveFailed
from kernelwright.core.models import CallMode, ModelSettings
from kernelwright.core.run import RunSpec
from kernelwright.methods import recipes
from kernelwright.runs.loop import RunOutcome
from kernelwright.store.base import Store
from kernelwright.testing.fake_run import FakeReferee

Play = Callable[[RunSpec, FakeReferee], RunOutcome]


def spec_for(server: BadServer, recipe: str, budget: Budget) -> RunSpec:
    models = ModelSettings(
        model="openai:scripted",
        base_url=server.url,
        usd_per_million_input=1000.0,
        usd_per_million_output=1000.0,
    )
    return RunSpec(task=TASK, recipe=recipe, team="llm", models=models, budget=budget)


def test_a_run_begun_from_python_is_stored_with_its_prices(play: Play, store: Store) -> None:
    with BadServer(answers(PlayingModel())) as server:
        outcome = play(spec_for(server, "best-of-n", Budget(evaluations=1)), ScriptedReferee())
    models = store.get_run(outcome.run_id).spec.models
    assert models is not None
    (price,) = models.prices
    assert price.usd_per_million_output == 1000.0
    assert outcome.spent.usd == pytest.approx(price.cost(11, 7))


def test_a_budget_in_dollars_without_a_price_begins_nothing(play: Play, store: Store) -> None:
    models = ModelSettings(model="openai:scripted", base_url="http://127.0.0.1:1/v1")
    spec = RunSpec(task=TASK, recipe="refine", team="llm", models=models, budget=Budget(usd=1.0))
    with pytest.raises(UserError, match="is unknown"):
        play(spec, ScriptedReferee())
    assert list(store.iter_runs()) == []


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(model_calls=4), "model calls"),
        (Budget(tokens=4 * 18), "tokens"),
        (Budget(usd=4 * 0.018), "usd"),
    ],
    ids=["model calls", "tokens", "usd"],
)
def test_seeds_that_were_paid_for_are_judged_when_the_budget_ends(
    play: Play, budget: Budget, said: str
) -> None:
    with BadServer(answers(PlayingModel())) as server:
        outcome = play(spec_for(server, "best-of-n", budget), ScriptedReferee())
        assert len(server.requests) == 4
    assert outcome.spent.evaluations == 4
    assert outcome.reason == f"the budget of {said} is used up"
    assert outcome.winner is not None


@pytest.mark.slow
def test_rewrites_that_were_paid_for_are_judged_when_the_budget_ends(play: Play) -> None:
    with BadServer(answers(PlayingModel())) as server:
        outcome = play(spec_for(server, "fsr", Budget(model_calls=7)), ScriptedReferee())
        assert len(server.requests) == 7
    assert outcome.spent.evaluations >= 4
    assert outcome.winner is not None


def test_what_a_model_wrote_before_its_key_was_withdrawn_is_judged(play: Play) -> None:
    model = PlayingModel()
    with BadServer(answers(model), answers(model), status(401)) as server:
        outcome = play(spec_for(server, "best-of-n", Budget(evaluations=20)), ScriptedReferee())
    assert outcome.spent.evaluations == 2
    assert "is not available" in outcome.reason
    assert outcome.winner is not None and not outcome.every_call_failed


def test_no_seed_is_paid_for_that_could_not_be_judged(play: Play) -> None:
    with BadServer(answers(PlayingModel())) as server:
        outcome = play(spec_for(server, "best-of-n", Budget(evaluations=3)), ScriptedReferee())
        assert len(server.requests) == outcome.spent.evaluations == 3
    assert outcome.winner is not None


MIXED = "expert+planner=llm,coder=llm"
N_MIXED = 6
QUICK = ("kernelwright", "kernelskill", "cupilot", "best-of-n")
"""Recipes of different shape; the others run with the slow tests."""


@pytest.mark.slow
@pytest.mark.parametrize("recipe", mostly_slow(recipes(), *QUICK))
def test_every_recipe_is_played_by_a_mixed_team(recipe: str, play: Play, store: Store) -> None:
    with BadServer(answers(PlayingModel())) as server:
        spec = spec_for(server, recipe, Budget(evaluations=N_MIXED)).model_copy(update={"team": MIXED})
        outcome = play(spec, ScriptedReferee())
        openings = {request.text().splitlines()[0][:30] for request in server.requests}
    made = list(store.iter_candidates(outcome.run_id))
    assert 1 < outcome.spent.evaluations <= N_MIXED
    assert outcome.reason and not outcome.every_call_failed
    if recipe == "best-of-n":
        assert not openings, "it asks the Generator alone"
        return
    assert outcome.winner is not None and set(outcome.answers) == {"ok"}
    assert any("CHUNK" in candidate.source for candidate in made), "the model's kernels"
    assert any("CHUNK" not in candidate.source for candidate in made), "the expert's, or the reference"


WRITERS = re.compile(r"^You (write|make a kernel|improve|repair) ", re.M)
"""What the prompts that ask for code say of the role."""


@pytest.mark.slow
@pytest.mark.parametrize("recipe", mostly_slow(recipes(), *QUICK))
def test_no_kernel_is_asked_for_that_could_not_be_judged(recipe: str, play: Play) -> None:
    with BadServer(answers(PlayingModel())) as server:
        outcome = play(spec_for(server, recipe, Budget(evaluations=6)), ScriptedReferee())
        asked = [request for request in server.requests if WRITERS.search(request.text())]
    by_hand = recipe.startswith("stark")  # the root is the reference; no model writes it
    assert outcome.spent.evaluations == 6
    assert len(asked) == outcome.spent.evaluations - by_hand


def test_who_writes_known_kernels_is_asked_three_times_a_step(play: Play, store: Store) -> None:
    class Repeating(PlayingModel):
        def _new_kernel(self, *, may_break: bool = False) -> str:
            self._n_kernels += 1
            return block(kernel(min(self._n_kernels, 2)))

    def verdict(source: str) -> float:
        return 3.0 if "CHUNK = 1;" in source else 1.5

    with BadServer(answers(Repeating())) as server:
        spec = spec_for(server, "kernelskill", Budget(evaluations=40, model_calls=13))
        outcome = play(spec, ScriptedReferee(verdict))
    stored = store.iter_events(outcome.run_id, kinds=["move_failed"])
    failed = [one.event for one in stored if isinstance(one.event, MoveFailed)]
    assert max(Counter(event.step for event in failed).values()) == 3
    assert all("which was evaluated already: verified, 1.50x" in event.reason for event in failed)


@pytest.mark.parametrize(("calls", "unspent"), [("merged", 0), ("separate", 1)])
def test_no_plan_is_asked_for_that_nobody_could_be_paid_to_carry_out(
    calls: CallMode, unspent: int, play: Play
) -> None:
    budget = Budget(evaluations=40, model_calls=8)  # three seeds, then one or two calls a round
    with BadServer(answers(PlayingModel())) as server:
        spec = spec_for(server, "kernelskill", budget)
        assert spec.models is not None
        models = spec.models.model_copy(update={"calls": calls})
        outcome = play(spec.model_copy(update={"models": models}), ScriptedReferee(lambda source: 1.5))
    assert outcome.spent.model_calls == 8 - unspent
    assert outcome.reason == "the budget of model calls is used up"

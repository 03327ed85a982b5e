"""A budget of what models cost ends a run, and what was paid for by then is judged."""

from collections.abc import Callable

import pytest

from kernelwright.core.budget import Budget
from kernelwright.core.models import ModelSettings
from kernelwright.core.run import RunSpec
from kernelwright.engine.run import RunOutcome
from kernelwright.recipes import RECIPES
from kernelwright.testing.bad_server import BadServer, answers, status
from kernelwright.testing.fake_run import FakeReferee
from kernelwright.testing.playing_model import TASK, PlayingModel, ScriptedReferee

Play = Callable[[RunSpec, FakeReferee], RunOutcome]


def spec_for(server: BadServer, recipe: str, budget: Budget) -> RunSpec:
    models = ModelSettings(
        model="openai:scripted",
        base_url=server.url,
        usd_per_million_input=1000.0,
        usd_per_million_output=1000.0,
    )
    return RunSpec(task=TASK, recipe=recipe, team="llm", models=models, budget=budget)


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


WRITERS = ("You write ", "You improve ", "You repair ")
"""How the prompts that ask for code begin."""


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_kernel_is_asked_for_that_could_not_be_judged(recipe: str, play: Play) -> None:
    with BadServer(answers(PlayingModel())) as server:
        outcome = play(spec_for(server, recipe, Budget(evaluations=6)), ScriptedReferee())
        asked = [request for request in server.requests if request.text().startswith(WRITERS)]
    by_hand = recipe.startswith("stark")  # the root is the reference; no model writes it
    assert outcome.spent.evaluations == 6
    assert len(asked) == outcome.spent.evaluations - by_hand

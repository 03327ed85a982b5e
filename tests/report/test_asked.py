"""What is said of the models of a run: how their answers ended, what they cost, by which prices."""

import pytest
from lab.sample_run import StubStore, make_store
from tests.report.test_html import visible_text

from kernelwright.core.budget import Spent
from kernelwright.core.events import RunFinished
from kernelwright.core.model_call import Price, answers_sentence
from kernelwright.core.models import ModelSettings, RoleModel
from kernelwright.report.asked import asked_of, usd, with_models
from kernelwright.report.html import render_report
from kernelwright.report.story import tell
from kernelwright.report.verdict import run_verdict

PRICE = Price(model="openai:big", usd_per_million_input=1.25, usd_per_million_output=10, source="a list 1.0")
MODELS = ModelSettings(
    model="openai:big",
    roles={"planner": RoleModel(temperature=0.8), "coder": RoleModel(model="openai:odd")},
    prices=(PRICE,),
)
ANSWERS = {"no_code": 4, "ok": 2, "invalid_output": 1}
SPENT = Spent(evaluations=4, model_calls=9, tokens=34_804, usd=0.21456, seconds=23.4)
SENTENCE = "5 of 7 answers were unusable: 4 no code, 1 invalid output."


def store_with(models: ModelSettings | None, *, is_finished: bool = True, spent: Spent = SPENT) -> StubStore:
    """Return the made-up run, played with those models."""
    made = make_store(is_finished=is_finished)
    spec = made.record.spec.model_copy(update={"team": "llm", "models": models})
    ending = {"answers": ANSWERS, "spent": spent}
    events = [e.model_copy(update=ending) if isinstance(e, RunFinished) else e for e in made.events]
    return StubStore(made.record.model_copy(update={"spec": spec}), events, made.candidates)


def lines_of(store: StubStore) -> tuple[str, ...]:
    story = tell(store.events)
    return with_models(run_verdict(story), store.record.spec.models, story).lines


def test_a_verdict_accounts_for_the_answers_and_what_they_cost() -> None:
    lines = lines_of(store_with(MODELS))
    assert lines[-2:] == (
        SENTENCE,
        "9 requests to models took 34,804 tokens and 0.215 USD by the prices of when the run began, "
        "without openai:odd, whose price is not known.",
    )


def test_dollars_are_not_made_up_where_no_price_is_known() -> None:
    lines = lines_of(store_with(MODELS.model_copy(update={"prices": ()})))
    assert lines[-1] == "9 requests to models took 34,804 tokens; no price of theirs is known."


@pytest.mark.parametrize(
    "store",
    [
        store_with(None),
        store_with(MODELS, is_finished=False),
        store_with(MODELS, spent=Spent(evaluations=4)),
    ],
    ids=["no models", "not ended", "nothing asked"],
)
def test_nothing_is_said_of_models_that_were_not_asked(store: StubStore) -> None:
    story = tell(store.events)
    assert asked_of(store.record.spec.models, story) is None
    assert lines_of(store) == run_verdict(story).lines


def test_a_report_shows_answers_tokens_dollars_and_the_prices_of_then() -> None:
    text = visible_text(render_report(store_with(MODELS), "r0001"))
    for words in (
        SENTENCE,
        "2 of 7 usable answers from models",
        "34,804 tokens requests to models: 9",
        "0.215 USD for models by the prices of when the run began",
        "openai:big every other, planner 1.25 10 a list 1.0",
        "openai:odd coder not known",
    ):
        assert words in text, words


def test_a_report_without_models_has_no_such_section() -> None:
    page = render_report(make_store(), "r0001")
    assert 'id="models"' not in page and "usable answers" not in page


def test_one_sentence_on_the_answers_of_a_run() -> None:
    assert answers_sentence({"ok": 3}) == "all 3 answers were usable"
    assert answers_sentence({"timed_out": 2}) == "every call failed: 2 timed out"


def test_small_amounts_keep_their_figures() -> None:
    assert [usd(n) for n in (0.0, 0.000123, 12.345)] == ["0.00 USD", "0.000123 USD", "12.35 USD"]

"""The three budgets of retries and their product."""

from pathlib import Path

from kernelwright.agents.llm.retries import MAX_SENDS_FOR_CODE, MAX_SENDS_FOR_DATA

DOCS = Path(__file__).parents[3] / "docs" / "models.md"


def test_a_question_is_never_sent_more_often_than_the_product_of_the_three_budgets() -> None:
    assert (MAX_SENDS_FOR_CODE, MAX_SENDS_FOR_DATA) == (8, 24)


def test_the_docs_name_the_same_figures() -> None:
    text = " ".join(DOCS.read_text(encoding="utf-8").split())
    assert f"at most 2 answers and {MAX_SENDS_FOR_CODE} tries" in text
    assert f"6 answers and {MAX_SENDS_FOR_DATA} tries" in text

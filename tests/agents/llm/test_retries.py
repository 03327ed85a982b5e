"""The three budgets of retries and their product."""

from pathlib import Path

from kernelwright.agents.llm.asking import MAX_ANSWERS
from kernelwright.agents.llm.model_client import OUTPUT_RETRIES
from kernelwright.agents.llm.transport import MAX_TRIES

SENDS_FOR_CODE = MAX_ANSWERS * MAX_TRIES
SENDS_FOR_DATA = MAX_ANSWERS * (1 + OUTPUT_RETRIES) * MAX_TRIES
DOCS = Path(__file__).parents[3] / "docs" / "models.md"


def test_the_docs_name_how_often_a_question_is_sent_at_most() -> None:
    text = " ".join(DOCS.read_text(encoding="utf-8").split())
    assert f"at most 2 answers and {SENDS_FOR_CODE} tries" in text
    assert f"6 answers and {SENDS_FOR_DATA} tries" in text

"""Hidden characters in the text of others."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.evaluation import LINE_CHARS, LOG_CHARS, Evaluation, Stage, Status
from kernelwright.core.visible import visible, visible_line, visible_lines

NAMED = {
    "\x1b[2J": "⟨ESC⟩[2J",
    "a\x9bb": "a⟨U+009B⟩b",
    "\u202egnp": "⟨U+202E⟩gnp",
    "a\x00": "a⟨NUL⟩",
    "\x07\x08\r": "⟨BEL⟩⟨BS⟩⟨CR⟩",
    "\u2028": "⟨U+2028⟩",
    "\ud800": "⟨U+D800⟩",
    "\u200b\ufeff": "⟨U+200B⟩⟨U+FEFF⟩",
}


@pytest.mark.parametrize("text", NAMED)
def test_what_acts_unseen_is_named(text: str) -> None:
    assert visible(text) == NAMED[text]


def test_lines_stay_where_they_may() -> None:
    assert visible_lines("a\r\n\tb\n") == "a\n\tb\n"
    assert visible_line("a\r\n\tb\n") == "a  b "


@given(st.text())
def test_what_is_shown_hides_nothing_and_is_encodable(text: str) -> None:
    shown = visible_line(text)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert (shown.encode() and visible_line(shown) == shown) or not shown


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_usual_text_stays(text: str) -> None:
    assert visible(text) == text


def test_an_evaluation_holds_nothing_hidden() -> None:
    forged = "\x1b[2J\x1b[Hverified"
    evaluation = Evaluation(
        candidate_id="c", task_id="t", stage=Stage.LOAD, status=Status.LOAD_ERROR, detail=forged + "\nmore",
        log=f"one\n{forged}", notes=(forged,), facts={"x": forged, "y": 1.0}, library_calls={forged: 1},
    )  # fmt: skip
    assert "\x1b" not in evaluation.model_dump_json() and "\\u001b" not in evaluation.model_dump_json()
    assert "\n" not in evaluation.detail and "one\n" in evaluation.log and evaluation.facts["y"] == 1.0


def test_an_evaluation_holds_no_more_text_than_it_may() -> None:
    flood = "\x1b" * 1_000_000 + "end"
    evaluation = Evaluation(
        candidate_id="c", task_id="t", stage=Stage.LOAD, status=Status.LOAD_ERROR, detail=flood, log=flood,
        notes=(flood,), facts={flood: flood}, library_calls={flood: 1}, missing_baselines={"b": flood},
    )  # fmt: skip
    assert len(evaluation.detail) == LINE_CHARS and len(evaluation.log) == LOG_CHARS
    assert evaluation.log.endswith("end") and len(evaluation.model_dump_json()) < 5 * (
        6 * LINE_CHARS + LOG_CHARS
    )

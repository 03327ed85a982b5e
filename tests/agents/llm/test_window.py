"""Windows: what is cut first, what is never dropped, and that a budget is kept whatever comes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.agents.llm.guidance import SECTIONS
from kernelwright.agents.llm.window import WINDOWS, Section, cut_to, estimate_tokens, fit
from kernelwright.core.errors import UserError

LONG = "\n".join(f"line {n} of many" for n in range(200))

a_section = st.builds(
    Section,
    title=st.text(alphabet="abc é", min_size=1, max_size=12),
    text=st.text(alphabet="ab\n 漢é", max_size=1500),
    priority=st.integers(0, 5),
    is_required=st.booleans(),
    keeps_tail=st.booleans(),
    keeps_some=st.booleans(),
)


@given(st.lists(a_section, max_size=8), st.integers(400, 2000))
@settings(max_examples=80)
def test_a_prompt_never_exceeds_its_budget_and_keeps_what_is_required(
    sections: list[Section], budget: int
) -> None:
    text = fit(sections, budget)
    assert estimate_tokens(text) <= budget
    for section in sections:
        if section.is_required and section.text.strip():
            assert f"## {section.title}\n" in text


@given(st.text(max_size=400), st.integers(1, 100))
def test_a_cut_text_keeps_within_its_tokens(text: str, tokens: int) -> None:
    assert estimate_tokens(cut_to(text, tokens)) <= tokens


def test_everything_is_shown_where_it_fits() -> None:
    sections = [Section("One", "first", 1), Section("Empty", " \n", 9), Section("Two", "second", 2)]
    assert fit(sections, 1000) == "## One\nfirst\n\n## Two\nsecond"


def test_the_lowest_priority_goes_first_and_is_marked() -> None:
    sections = [Section("High", LONG, 5), Section("Low", LONG, 1), Section("Middle", LONG, 3)]
    text = fit(sections, estimate_tokens(LONG) * 2 + 40)
    assert LONG in text and "(left out for length: Low)" in text
    assert text.count("line 199") == 2


def test_a_shortened_section_keeps_whole_lines_of_the_end_that_matters() -> None:
    head = fit([Section("Log", LONG, 1)], 300)
    tail = fit([Section("Log", LONG, 1, keeps_tail=True)], 300)
    assert "line 0 of many\n" in head and head.endswith("characters cut ...]")
    assert tail.endswith("line 199 of many") and "[... " in tail.splitlines()[1]
    assert all(line.endswith("of many") for line in tail.splitlines()[2:])


def test_required_sections_are_shortened_only_after_all_others_are_gone() -> None:
    sections = [Section("Base", LONG, 1, is_required=True), Section("Extra", LONG, 9)]
    text = fit(sections, estimate_tokens(LONG) - 100)
    assert "## Base" in text and "## Extra" not in text and "characters cut" in text


def test_what_keeps_some_is_shortened_where_others_are_dropped() -> None:
    base = Section("Base", LONG, 9, is_required=True)
    sections = [base, Section("Ranked", LONG, 1, keeps_some=True), Section("Archive", LONG, 5)]
    text = fit(sections, estimate_tokens(LONG) - 100)
    assert "## Ranked\nline 0 of many\n" in text and "(left out for length: Archive)" in text
    without = fit(sections, 40)
    assert "## Base" in without and "## Ranked" not in without


def test_a_budget_below_the_titles_is_refused() -> None:
    with pytest.raises(UserError, match="no room"):
        fit([Section("A title", LONG, 1, is_required=True)], 5)


@pytest.mark.parametrize("name", sorted(WINDOWS))
def test_windows_name_known_sections_once(name: str) -> None:
    names = [slot.section for slot in WINDOWS[name].slots]
    assert len(set(names)) == len(names) and set(names) <= set(SECTIONS)


CHANGES = [
    name
    for name in WINDOWS
    if name not in ("analyst", "selector", "aligner", "debugger_diagnose", "generator")
]


GROUNDS = {"floor", "diagnosis", "ranked", "tried"}


@pytest.mark.parametrize("name", CHANGES)
def test_every_prompt_that_asks_for_a_change_is_grounded(name: str) -> None:
    slots = {slot.section: slot for slot in WINDOWS[name].slots}
    decided = "steps" in slots or name == "debugger_repair"  # of a plan the skill is, of a repair the idea
    grounds = GROUNDS - {"ranked"} if decided else GROUNDS
    assert {"contract", *grounds} <= set(slots)
    assert all(slots[section].keeps_some for section in grounds)

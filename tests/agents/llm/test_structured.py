"""One JSON object, found in whatever a model wrote."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from kernelwright.agents.llm.structured import NotAnswered, ask_for_json, find_objects, parse

WORDS = st.text(max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=3)
PROSE = st.text(st.characters(exclude_characters="{", exclude_categories=["Cs"]), max_size=20)
few = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@few
@given(OBJECTS, PROSE, PROSE, st.booleans(), st.sampled_from([None, 2]))
def test_an_object_is_found_between_any_prose(
    value: dict[str, object], before: str, after: str, is_ascii: bool, indent: int | None
) -> None:
    text = f"{before}{json.dumps(value, ensure_ascii=is_ascii, indent=indent)}{after}"
    assert find_objects(text) == [value]


@few
@given(OBJECTS, PROSE)
def test_a_fence_is_prose(value: dict[str, object], words: str) -> None:
    assert find_objects(f"{words}\n```json\n{json.dumps(value)}\n```\n{words}") == [value]


@few
@given(st.lists(OBJECTS, max_size=4), PROSE)
def test_several_objects_come_in_order(values: list[dict[str, object]], between: str) -> None:
    assert find_objects(between.join(["", *map(json.dumps, values), ""])) == values


@few
@given(st.text(st.sampled_from('{}[]":,\\ \n0ae'), max_size=60))
def test_no_text_is_an_exception(text: str) -> None:
    for value in find_objects(text):
        assert isinstance(value, dict)


@pytest.mark.parametrize(
    "text", ['{"a":' * 100_000, "{" * 100_000, '{"a' * 100_000, "[" * 10_000 + '{"x": 1}', ""]
)
def test_hostile_text_is_read_in_bounded_time(text: str) -> None:
    assert len(find_objects(text)) <= 1


class Point(BaseModel):
    """Something to ask for."""

    x: int
    y: int = 0


@few
@given(st.integers(), st.integers(), PROSE)
def test_a_valid_object_is_returned_as_it_is(x: int, y: int, prose: str) -> None:
    assert parse(f"{prose}{json.dumps({'x': x, 'y': y})}{prose}", Point) == Point(x=x, y=y)


def test_an_invalid_draft_does_not_hide_the_valid_object() -> None:
    assert parse('first {"z": 1}, then {"x": 2}', Point) == Point(x=2)


def test_newlines_inside_strings_are_forgiven() -> None:
    assert find_objects('{"code": "a\nb"}') == [{"code": "a\nb"}]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ('{"y": 1}', "x: Field required"),
        ('{"x": 1} {"x": 2}', "2 different JSON objects"),
        ('{"x": "\\ud800"}', "does not conform"),
        ('as {asked}: {"y": 1}', "x: Field required"),
        ('{"points": [{"y": 1}, {"x": 3', "breaks at line 1, column 30"),
        ('{"points": [{"y": 2}] "more": 1}', "Expecting ',' delimiter"),
    ],
)
def test_what_is_no_answer_says_what_to_mend(text: str, complaint: str) -> None:
    with pytest.raises(NotAnswered, match=complaint):
        parse(text, Point)


def test_a_long_list_of_complaints_is_cut() -> None:
    class Points(BaseModel):
        points: list[Point]

    with pytest.raises(NotAnswered, match="and 22 more") as raised:
        parse(json.dumps({"points": [{}] * 30}), Points)
    assert len(str(raised.value)) < 500


def test_the_schema_is_part_of_the_prompt() -> None:
    prompt = ask_for_json("You are terse.\n", Point)
    assert prompt.startswith("You are terse.\n\nAnswer with exactly one JSON object")
    assert json.dumps(Point.model_json_schema(), separators=(",", ":")) in prompt

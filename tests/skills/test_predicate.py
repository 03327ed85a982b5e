"""Predicates: text form, three-valued facts, no confusion of kinds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.evidence import Evidence, FactValue
from kernelwright.core.skill import Predicate
from kernelwright.skills.predicate import holds, parse_predicate, show_predicate


@pytest.mark.parametrize(
    "text",
    [
        "run.floor_fraction < 0.5",
        "graph.structure in [scan, mixed]",
        "counters.ipc known",
        "task.bound_by == memory",
        "task.working_set_fits_cache != true",
        "graph.n_matmuls >= 2",
    ],
)
def test_text_form_round_trips(text: str) -> None:
    assert show_predicate(parse_predicate(text)) == text


@pytest.mark.parametrize(
    "text", ["", "run.latency_ms", "a ~ 1", "a <", "a known 3", "a == {b: 1}", "a in [1"]
)
def test_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_predicate(text)


@pytest.mark.parametrize(
    ("text", "fact", "expected"),
    [
        ("x < 2", 1, True),
        ("x < 2", True, False),
        ("x < 2", "1", False),
        ("x == 1", True, False),
        ("x == true", True, True),
        ("x == true", 1, False),
        ("x != memory", "compute", True),
        ("x != memory", 3, False),
        ("x in [1, 2]", 2.0, True),
        ("x known", 0, True),
        ("x >= 1", float("nan"), False),
    ],
)
def test_meaning_over_known_facts(text: str, fact: FactValue, expected: bool) -> None:
    assert holds(parse_predicate(text), Evidence(facts={"x": fact})) is expected


@given(op=st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "known"]), value=st.floats(0, 1))
def test_an_unknown_metric_never_holds(op: str, value: float) -> None:
    wanted = (value,) if op == "in" else value
    predicate = Predicate.model_validate({"metric": "run.latency_ms", "op": op, "value": wanted})
    assert not holds(predicate, Evidence(facts={"run.latency_ms": None}))
    assert not holds(predicate, Evidence())

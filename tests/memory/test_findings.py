"""Findings: who may speak, where, and how loudly."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.learned import Finding
from kernelwright.memory.findings import LEAST_FACTOR, MOST_FACTOR, Findings, describe

CPU = "cpu/cpp"


def finding(text: str = "unroll helps", **changes: Any) -> Finding:
    fields = {"target": CPU, "skill": "unroll", "claim": "helps", "state": "admitted"}
    return Finding(text=text, **(fields | changes))


def factor(*findings: Finding, structure: str = "reduction", bottleneck: str = "compute") -> float:
    return Findings(findings).for_target(CPU).factor("unroll", structure, bottleneck)


@pytest.mark.parametrize("state", ["proposed", "rejected"])
def test_only_admitted_findings_speak(state: str) -> None:
    unproven = finding(state=state)
    assert Findings([unproven]).admitted_for(CPU, "reduction", "compute") == ()
    assert factor(unproven) == 1.0


@pytest.mark.parametrize(
    "elsewhere", [{"target": "cuda/triton"}, {"structure": "scan"}, {"bottleneck": "library"}]
)
def test_a_finding_holds_only_where_it_was_seen(elsewhere: dict[str, str]) -> None:
    other = finding(**elsewhere)
    assert Findings([other]).admitted_for(CPU, "reduction", "compute") == ()
    assert factor(other) == 1.0


def test_what_is_said_of_single_values_says_nothing_of_the_skill() -> None:
    valued = finding(structure="reduction", params={"unroll": 8})
    assert Findings([valued]).admitted_for(CPU, "reduction", "compute") == (valued,)
    assert factor(valued) == 1.0 and factor(valued, finding("anywhere")) > 1.0


def test_the_most_specific_comes_first() -> None:
    known = [
        finding("anywhere"),
        finding("b", structure="reduction"),
        finding("a", structure="reduction"),
        finding("bound", bottleneck="compute"),
        finding("here", structure="reduction", bottleneck="compute"),
    ]
    fitting = Findings(known).admitted_for(CPU, "reduction", "compute")
    assert [f.text for f in fitting] == ["here", "a", "b", "bound", "anywhere"]


def test_lines_say_how_often_it_was_tested() -> None:
    known = [finding("a", proof=("t: 1.3x",)), finding("b", proof=("t: 1.3x", "u: 1.2x")), finding("c")]
    assert [describe(each) for each in known] == [
        "a (tested on 1 other task)",
        "b (tested on 2 other tasks)",
        "c",
    ]


def test_findings_move_a_skill_up_or_down() -> None:
    assert factor(finding()) > 1.0 > factor(finding(claim="does_not_help"))
    assert factor() == factor(finding(claim=None)) == factor(finding(skill="tile")) == 1.0


def test_the_closer_look_overrules_the_wider_one() -> None:
    useless_here = finding("never here", claim="does_not_help", structure="reduction", bottleneck="compute")
    assert factor(finding(), useless_here) == factor(useless_here)
    assert factor(finding(), useless_here, structure="scan") == factor(finding())


@given(st.lists(st.sampled_from(["helps", "does_not_help"])))
def test_many_findings_do_not_shout(claims: list[str]) -> None:
    assert LEAST_FACTOR <= factor(*[finding(str(n), claim=c) for n, c in enumerate(claims)]) <= MOST_FACTOR

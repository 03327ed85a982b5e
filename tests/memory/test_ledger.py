"""The ledger: aggregation, back-off, the table of expected against measured effects."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.run import Outcome
from kernelwright.memory.ledger import ENOUGH_TRIES, WHOEVER, Ledger
from kernelwright.skills.stats import LedgerView, SkillStats


def outcome(
    speedup: float | None,
    *,
    skill: str = "unroll",
    structure: str = "reduction",
    bottleneck: str = "compute",
    expected: str = "latency -20 %",
    coder: str = "expert",
) -> Outcome:
    return Outcome(
        skill=skill,
        target="cpu/cpp",
        structure=structure,
        bottleneck=bottleneck,
        task_id="t",
        run_id="r",
        move_key="k",
        verified=speedup is not None,
        log_speedup=None if speedup is None else math.log(speedup),
        expected=expected,
        coder=coder,
    )


def test_stats_count_failures_and_slow_downs_as_tries_without_gain() -> None:
    stats = Ledger([outcome(2.0), outcome(0.5), outcome(None), outcome(2.0)]).stats(
        "unroll", "reduction", "compute"
    )
    assert (stats.tries, stats.wins) == (4, 2)
    assert stats.mean_log_speedup == pytest.approx(math.log(2) / 3)
    assert stats.mean_gain == pytest.approx(math.log(2) / 2)
    assert stats.spread > 0


def test_backs_off_to_the_closest_context_with_enough_tries() -> None:
    near = [outcome(2.0)] * (ENOUGH_TRIES - 1)
    other_structure = [outcome(1.1, structure="scan")]
    elsewhere = [outcome(0.9, bottleneck="library")] * 5
    known = [*near, *other_structure, *elsewhere]
    ledger = Ledger(known)
    assert ledger.stats("unroll", "reduction", "compute").context == "any/compute"
    assert ledger.stats("unroll", "window", "library").context == "any/library"
    assert ledger.stats("unroll", "window", "overhead").tries == 8
    assert Ledger([*known, *near]).stats("unroll", "reduction", "compute").context == "reduction/compute"


def test_a_models_failures_are_not_the_experts() -> None:
    own = [outcome(2.0)] * ENOUGH_TRIES
    failures = [outcome(None, coder="llm")] * 9
    for known in (own, [*own, *failures], [*failures, outcome(1.5, coder="llm"), *own]):
        stats = Ledger(known, "expert").stats("unroll", "reduction", "compute")
        assert (stats.tries, stats.wins, stats.context) == (3, 3, "reduction/compute")
    models = Ledger([*own, *failures], "llm").stats("unroll", "reduction", "compute")
    assert (models.tries, models.wins) == (9, 0)
    everybodys = Ledger([*own, *failures]).stats("unroll", "reduction", "compute")
    assert (everybodys.tries, everybodys.wins) == (12, 3)


def test_ones_own_outcomes_elsewhere_speak_before_anothers_here() -> None:
    own = [outcome(1.1, structure="scan", bottleneck="library")] * ENOUGH_TRIES
    ledger = Ledger([*own, *[outcome(3.0, coder="llm")] * 5], "expert")
    stats = ledger.stats("unroll", "reduction", "compute")
    assert (stats.context, stats.tries) == ("any/any", ENOUGH_TRIES)


def test_where_ones_own_are_too_few_anothers_successes_count_and_its_failures_do_not() -> None:
    theirs = [outcome(2.0), outcome(0.9), outcome(None), outcome(None)]
    stats = Ledger([*theirs, outcome(None, coder="llm")], "llm").stats("unroll", "reduction", "compute")
    assert (stats.tries, stats.wins) == (3, 1)
    assert stats.context == f"reduction/compute{WHOEVER}"
    assert Ledger([*theirs, *theirs], "llm").stats("unroll", "scan", "x").tries == 4


def test_few_tries_everywhere_give_the_widest_context() -> None:
    stats = Ledger([outcome(2.0)]).stats("unroll", "reduction", "compute")
    assert (stats.tries, stats.context) == (1, "any/any")


def test_an_unknown_skill_has_no_stats() -> None:
    ledger: LedgerView = Ledger()
    assert ledger.stats("tile", "scan", "compute") == SkillStats()


def test_effects_set_expected_beside_measured() -> None:
    ledger = Ledger([outcome(1.3), outcome(1.1), outcome(None), outcome(1.0, skill="tile", expected="")])
    tile, unroll = ledger.effects()
    assert (unroll.skill, unroll.expected, unroll.tries, unroll.verified) == ("unroll", "latency -20 %", 3, 2)
    assert unroll.median_speedup == pytest.approx(math.sqrt(1.3 * 1.1))
    assert (tile.wins, tile.median_speedup) == (0, 1.0)


def test_effects_of_two_coders_are_two_lines() -> None:
    effects = Ledger([outcome(1.3), outcome(None, coder="llm")]).effects()
    assert [(effect.coder, effect.verified) for effect in effects] == [("expert", 1), ("llm", 0)]


@given(st.permutations([outcome(s) for s in (0.5, 1.0, 1.5, None, 3.0)]))
def test_order_of_outcomes_does_not_matter(outcomes: list[Outcome]) -> None:
    stats = Ledger(outcomes).stats("unroll", "reduction", "compute")
    assert stats.mean_gain == pytest.approx((math.log(1.5) + math.log(3)) / 5)
    assert stats.wins == 2

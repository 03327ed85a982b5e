"""The Librarian: what is proposed, what is not, and who may prove it."""

import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.intervals import mean_interval, student_quantile, wilson
from kernelwright.core.learned import ArchivedPlan, Finding
from kernelwright.core.plan import Move, Plan
from kernelwright.core.run import Outcome
from kernelwright.memory.librarian import judge, propose
from kernelwright.memory.study import learn
from kernelwright.memory.trials import trials_of

CPU, REDUCTION, MEMORY = "cpu/cpp", "reduction", "memory_bandwidth"


def outcome(task: str, speedup: float | None, skill: str = "tile", **changes: Any) -> Outcome:
    fields = {
        "target": CPU,
        "structure": REDUCTION,
        "bottleneck": MEMORY,
        "task_id": task,
        "run_id": f"run-{task}",
        "move_key": "m",
        "verified": speedup is not None,
        "log_speedup": None if speedup is None else math.log(speedup),
    }
    return Outcome(skill=skill, **(fields | changes))


def tried(speedups: Iterable[float | None], first: int = 0, **changes: Any) -> list[Outcome]:
    """One try a task, each on a task of its own."""
    return [outcome(f"t{n:03}", speedup, **changes) for n, speedup in enumerate(speedups, first)]


def archived(task: str, *skills: str, speedup: float = 2.0, structure: str = REDUCTION) -> ArchivedPlan:
    return ArchivedPlan(
        task_id=task,
        task_name=task,
        target=CPU,
        signature={"graph.structure": structure},
        plan=Plan(moves=tuple(Move(skill=skill) for skill in skills)),
        initial_source="first",
        best_source=f"best of {task}",
        speedup=speedup,
        run_id=f"run-{task}",
    )


def only(findings: Sequence[Finding]) -> Finding:
    assert len(findings) == 1, [finding.text for finding in findings]
    return findings[0]


def helps(taken_from: tuple[str, ...] = (), **changes: Any) -> Finding:
    fields = {"skill": "tile", "structure": REDUCTION, "bottleneck": MEMORY, "claim": "helps"}
    return Finding(text="tile helps", target=CPU, taken_from=taken_from, **(fields | changes))


def useless(taken_from: tuple[str, ...] = ()) -> Finding:
    return helps(taken_from, claim="does_not_help")


def test_a_skill_that_gains_on_most_tasks_is_proposed_with_its_figures() -> None:
    finding = only(propose(tried([1.3] * 7 + [0.9]), []))
    assert finding.text == (
        "On reduction tasks limited by memory bandwidth, tile gave 1.30x in the median and gained on 7 of 8 "
        "tasks (8 tries)."
    )
    assert (finding.skill, finding.structure, finding.bottleneck) == ("tile", REDUCTION, MEMORY)
    assert (finding.claim, finding.state, finding.proof) == ("helps", "proposed", ())
    assert finding.taken_from == tuple(f"t{n:03}" for n in range(8))


def test_a_skill_that_never_gained_is_proposed_as_useless() -> None:
    finding = only(propose(tried([1.0] * 5 + [0.8, 1.01, None, None]), []))
    assert finding.claim == "does_not_help"
    assert "never helped: it gained on 0 of 9 tasks (9 tries, 2 of them failed)" in finding.text


@pytest.mark.parametrize(
    "speedups",
    [
        [],
        [9.0],
        [5.0, 5.0, 5.0],
        [2.0, 2.0, 2.0, 2.0, 0.5],
        [0.5] * 8,
        [1.01] * 8,
        [1.0] * 14 + [20.0],
        [2.0, 0.5] * 20,
    ],
    ids=["none", "one", "few", "one lost of five", "few lost", "noise", "rare but great", "by halves"],
)
def test_too_little_or_too_mixed_says_nothing(speedups: list[float]) -> None:
    assert propose(tried(speedups), []) == ()


def test_many_tries_on_one_task_are_one_task() -> None:
    again = [outcome("t", 1.5, run_id=f"run {n}") for n in range(50)]
    assert propose(again, []) == ()
    trial = only_trial([outcome("t", 2.0), outcome("t", None), outcome("t", 1.1)])
    assert (trial.effect, trial.failed) == (math.log(1.1), 1)


def only_trial(outcomes: Sequence[Outcome]) -> Any:
    trials = trials_of(outcomes)
    assert len(trials) == 1
    return trials[0]


def test_a_try_whose_base_was_never_timed_is_no_evidence() -> None:
    unknown = [outcome(f"t{n}", 1.0, log_speedup=None) for n in range(20)]
    assert propose(unknown, []) == () and judge(useless(), unknown) == useless()


def test_a_models_failures_make_no_skill_useless() -> None:
    assert propose(tried([None] * 12, coder="llm"), []) == ()
    found = propose(tried([None] * 12), [])
    assert {finding.claim for finding in found} == {"does_not_help"}
    trials = trials_of([outcome("t", None, coder="llm"), outcome("t", 1.3, coder="llm")])
    assert [(trial.tries, trial.failed) for trial in trials] == [(1, 0)]


def test_what_holds_across_contexts_is_said_of_the_wider_one() -> None:
    structures = ["reduction", "scan", "window", "pointwise"]
    outcomes = [outcome(f"t{n}", 1.4, structure=s) for n, s in enumerate(structures)]
    finding = only(propose(outcomes, []))
    assert (finding.structure, finding.bottleneck) == (None, MEMORY)
    assert finding.text.startswith("On tasks of any kind limited by memory bandwidth, tile gave 1.40x")


def test_nothing_is_proposed_twice_whatever_became_of_it() -> None:
    outcomes = tried([1.3] * 8)
    first = only(propose(outcomes, []))
    for state in ("proposed", "admitted", "rejected"):
        known = first.model_copy(update={"state": state, "text": "said before"})
        assert propose([*outcomes, *tried([1.5] * 9, first=50)], [], [known]) == ()


def test_most_winners_keeping_a_skill_is_a_hint() -> None:
    plans = [archived(f"p{n}", "seed", "tile", "unroll") for n in range(8)]
    plans += [archived("p8", "seed", "unroll"), archived("p8", "seed", "tile", speedup=1.1)]
    measured = [outcome("elsewhere", 1.0), outcome("elsewhere", 1.0, skill="unroll")]
    tile, unroll = propose(measured, plans)
    assert tile.text == "On reduction tasks, tile is in the best plan of 8 of 9 tasks."
    assert (tile.claim, tile.bottleneck) == ("helps", None) and "elsewhere" not in tile.taken_from
    assert unroll.text == "On reduction tasks, unroll is in the best plan of 9 of 9 tasks."
    assert propose(measured, plans[:3]) == ()


def test_a_finding_is_admitted_by_other_tasks_that_support_it() -> None:
    judged = judge(helps(taken_from=("a",)), [*tried([1.5, 1.2, 1.3]), outcome("t002", 1.5)])
    assert judged.state == "admitted"
    assert judged.proof == (
        "task t000: 1.50x, 1 try",
        "task t001: 1.20x, 1 try",
        "task t002: 1.40x, median of 2 tries",
    )
    assert judged.id == helps(taken_from=("a",)).id


def test_a_finding_is_rejected_by_other_tasks_that_contradict_it() -> None:
    assert judge(helps(), tried([1.0, 0.7, None])).state == "rejected"
    assert judge(useless(), tried([1.5, 1.5])).state == "rejected"


@pytest.mark.parametrize("speedups", [[1.5], [1.5, 1.5], [1.5, 0.9], [1.5, 1.5, 1.5, 0.9, 0.9]])
def test_otherwise_it_stays_proposed_with_what_was_seen(speedups: list[float]) -> None:
    judged = judge(helps(), tried(speedups))
    assert judged.state == "proposed" and len(judged.proof) == len(speedups)


def test_uselessness_takes_many_tasks_to_prove() -> None:
    assert judge(useless(), tried([1.0] * 6)).state == "proposed"
    assert judge(useless(), tried([1.0] * 7)).state == "admitted"
    assert judge(useless(), tried([1.0] * 12 + [9.0])).state == "proposed"


@given(
    st.lists(st.tuples(st.sampled_from("abcde"), st.floats(0.2, 5.0) | st.none()), max_size=30),
    st.sampled_from(["helps", "does_not_help"]),
)
def test_the_tasks_it_was_taken_from_never_prove_it(
    tries: list[tuple[str, float | None]], claim: str
) -> None:
    finding = helps(taken_from=tuple("abcde"), claim=claim)
    outcomes = [outcome(task, speedup) for task, speedup in tries]
    assert judge(finding, outcomes) == finding
    assert judge(finding, [*outcomes, outcome("other", 1.5)]).proof == ("task other: 1.50x, 1 try",)


@pytest.mark.parametrize(
    "elsewhere",
    [{"skill": "unroll"}, {"structure": "scan"}, {"bottleneck": "library"}, {"target": "cuda/cuda"}],
)
def test_only_its_own_subject_proves_it(elsewhere: dict[str, Any]) -> None:
    assert judge(helps(), tried([1.5] * 9, **elsewhere)) == helps()


def test_prose_is_left_to_people() -> None:
    prose = helps(claim=None)
    assert judge(prose, tried([1.5] * 9)) == prose == only(learn(tried([1.5]), [], [prose]))


def test_later_tasks_prove_what_earlier_ones_suggested() -> None:
    outcomes = tried([1.3] * 4)
    proposed = only(learn(outcomes, []))
    assert (proposed.state, len(proposed.taken_from)) == ("proposed", 4)
    admitted = only(learn([*outcomes, *tried([1.3] * 3, first=4)], []))
    assert admitted.state == "admitted" and admitted.taken_from == proposed.taken_from
    rejected = only(learn([*outcomes, *tried([0.9] * 5, first=4)], [], [admitted]))
    assert rejected.state == "rejected" and rejected.id == admitted.id


def noise(rng: random.Random, n_skills: int, n_tasks: int, spread: float) -> list[Outcome]:
    """What a ledger holds when no skill does anything and the clock is unsteady."""
    return [
        outcome(f"t{task:03}", math.exp(rng.gauss(0, spread)), skill=f"skill-{skill}")
        for task in range(n_tasks)
        for skill in range(n_skills)
    ]


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 30))
def test_learning_bit_by_bit_comes_to_the_same(seed: int, cut: int) -> None:
    rng = random.Random(seed)
    outcomes = noise(rng, 3, 12, 0.1) + tried([1.5] * 12, skill="good")
    rng.shuffle(outcomes)
    outcomes.sort(key=lambda o: o.run_id)
    runs = sorted({o.run_id for o in outcomes})
    early = [o for o in outcomes if o.run_id in runs[:cut]]
    at_once = learn(outcomes, [])
    assert learn(outcomes, [], learn(early, [])) == at_once == learn(outcomes, [], at_once)


def test_an_unsteady_clock_teaches_nothing() -> None:
    findings = [f for seed in range(10) for f in learn(noise(random.Random(seed), 30, 20, 0.1), [])]
    lucky = [f for f in findings if f.claim == "helps"]
    assert len(lucky) <= 0.1 * 300, "an idle skill is taken for good too often"
    assert sum(f.state == "admitted" for f in lucky) <= 1


def test_a_steady_clock_shows_idle_skills_for_what_they_are() -> None:
    findings = learn(noise(random.Random(0), 5, 20, 0.003), [])
    assert [(f.claim, f.state) for f in findings] == [("does_not_help", "admitted")] * 5


@pytest.mark.parametrize(
    ("wins", "n", "low", "high"), [(0, 10, 0.0, 0.2775), (7, 8, 0.5291, 0.9776), (5, 10, 0.2366, 0.7634)]
)
def test_wilson_agrees_with_published_values(wins: int, n: int, low: float, high: float) -> None:
    assert wilson(wins, n, 1.95996) == pytest.approx((low, high), abs=1e-3)


@given(st.integers(1, 200), st.data())
def test_wilson_is_a_share_and_narrows(n: int, data: st.DataObject) -> None:
    wins = data.draw(st.integers(0, n))
    once, twice = wilson(wins, n, 1.96), wilson(2 * wins, 2 * n, 1.96)
    assert 0 <= once.low <= wins / n <= once.high <= 1
    assert twice.high - twice.low < once.high - once.low


@pytest.mark.parametrize(("degrees", "expected"), [(5, 2.571), (8, 2.306), (30, 2.042)])
def test_students_quantile_agrees_with_tables(degrees: int, expected: float) -> None:
    assert student_quantile(1.95996, degrees) == pytest.approx(expected, rel=0.01)


def test_one_value_bounds_no_mean() -> None:
    assert mean_interval([1.0], 1.96) == (-math.inf, math.inf)
    low, high = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 1.95996)
    assert (low, high) == pytest.approx((1.5366, 5.4634), abs=0.02)

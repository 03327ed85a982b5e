"""Skills that the Librarian proposes: from which wins, how they are admitted, and how they are revoked."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.evidence import Bottleneck
from kernelwright.core.learned import Finding
from kernelwright.core.plan import ParamValue
from kernelwright.core.run import Outcome
from kernelwright.memory.librarian import propose
from kernelwright.memory.proposals import SkillProposal, skill_proposals
from kernelwright.memory.study import learn
from kernelwright.memory.trials import TrialSubject
from kernelwright.skills.lint import STRUCTURES, lint
from kernelwright.skills.load import load_skills, parse_skill
from kernelwright.skills.write import skill_text
from kernelwright.targets.for_skills import skill_targets

SKILLS, TARGETS = load_skills(), skill_targets()
UNROLL = "unroll-accumulators"
NAME = "unroll-accumulators-unroll-8-on-cpu-cpp-reduction-compute"


def tried(
    speedups: Iterable[float | None],
    first: int = 0,
    params: dict[str, ParamValue] | None = None,
    **changes: Any,
) -> list[Outcome]:
    """One try a task, each on a task and in a run of its own."""
    fields = {"skill": UNROLL, "target": "cpu/cpp", "structure": "reduction", "bottleneck": "compute"}
    return [
        Outcome(
            **(fields | {"task_id": f"t{n:03}", "run_id": f"run-{n:03}"} | changes),
            move_key="m",
            verified=speedup is not None,
            log_speedup=None if speedup is None else math.log(speedup),
            params={"unroll": 8} if params is None else params,
        )
        for n, speedup in enumerate(speedups, first)
    ]


OTHER_VALUE = tried([1.0], 900, {"unroll": 2})
"""Without it, 8 is all that unrolling ever was."""


def proposals(outcomes: Sequence[Outcome]) -> tuple[SkillProposal, ...]:
    return skill_proposals(learn(outcomes, []), outcomes, SKILLS, TARGETS)


def only(outcomes: Sequence[Outcome]) -> SkillProposal:
    found = proposals(outcomes)
    assert [proposal.skill.name for proposal in found] == [NAME]
    return found[0]


def test_values_that_win_on_several_tasks_become_a_skill_with_their_edit() -> None:
    skill = only(OTHER_VALUE + tried([1.3] * 4)).skill
    assert (skill.lowering, skill.params, skill.narrows) == ("schedule:unroll", {"unroll": (8,)}, UNROLL)
    assert (skill.targets, skill.structures) == (("cpu/cpp",), ("reduction",))
    assert skill.bottlenecks == (Bottleneck.COMPUTE,)
    assert "unroll-accumulators with unroll=8 gave 1.30x" in skill.body and "Take unroll = 8." in skill.body


def test_its_evidence_is_intervals_over_tasks() -> None:
    proposal = only(OTHER_VALUE + tried([1.2, 1.3, 1.4, 1.5]))
    assert (proposal.made_from.tasks, proposal.made_from.won) == (4, 4)
    low, high = proposal.made_from.share_won
    assert 0.5 < low < high == 1.0
    assert "of these: 4 of 4, a share of 0.51 to 1.00; of others: none tried." in proposal.skill.body
    assert proposal.made_from.speedup is not None
    assert proposal.made_from.speedup[0] < 1.35 < proposal.made_from.speedup[1]
    assert (proposal.since.tasks, proposal.since.speedup) == (0, None)


def test_many_wins_on_one_task_propose_nothing() -> None:
    again = [outcome for n in range(50) for outcome in tried([1.5], run_id=f"again-{n}")]
    assert proposals(OTHER_VALUE + again) == ()


def test_wins_in_unlike_contexts_do_not_add_up() -> None:
    apart = [o for n, s in enumerate(STRUCTURES) for o in tried([1.5] * 3, 10 * n, structure=s)]
    others = [o for s in STRUCTURES for o in tried([1.0], 900, {"unroll": 2}, structure=s)]
    assert proposals(others + apart) == ()


def test_a_value_that_is_the_only_one_ever_tried_says_no_more_than_the_skill() -> None:
    assert proposals(tried([1.5] * 8)) == ()


def test_what_a_skill_tries_first_already_is_not_proposed() -> None:
    assert SKILLS[UNROLL].params["unroll"][0] == 4
    assert proposals(OTHER_VALUE + tried([1.5] * 8, params={"unroll": 4})) == ()


def test_what_a_proposal_said_already_is_not_proposed_beside_it() -> None:
    outcomes = OTHER_VALUE + tried([1.3] * 4)
    more = SKILLS | {NAME: only(outcomes).skill}
    assert skill_proposals(learn(outcomes, []), outcomes, more, TARGETS) == ()


@pytest.mark.parametrize(
    "where",
    [{"target": "tpu/x"}, {"bottleneck": "at_floor"}, {"bottleneck": "luck"}, {"structure": "unknown"}],
)
def test_a_context_that_no_skill_can_name_has_no_proposal(where: dict[str, str]) -> None:
    outcomes = tried([1.0], 900, {"unroll": 2}, **where) + tried([1.3] * 4, **where)
    found = learn(outcomes, [])
    assert any(finding.params for finding in found)
    assert skill_proposals(found, outcomes, SKILLS, TARGETS) == ()


def test_moves_that_no_skill_of_ours_stands_for_are_not_proposed() -> None:
    others = tried([1.0], 900, {"unroll": 2}, skill="of a model")
    assert proposals(others + tried([1.5] * 8, skill="of a model")) == ()


@pytest.mark.parametrize(
    ("later", "state"),
    [
        ([], "proposed"),
        ([1.3, 1.3], "proposed"),
        ([1.3] * 3, "admitted"),
        ([1.3] * 3 + [0.9] * 12, "rejected"),
        ([None] * 3, "rejected"),
        ([1.3] * 3 + [0.9] * 2, "proposed"),
    ],
    ids=["nothing", "too few", "wins", "wins, then losses", "failures", "wins, then doubts"],
)
def test_only_later_tasks_admit_and_they_may_revoke(later: list[float | None], state: str) -> None:
    proposal = only(OTHER_VALUE + tried([1.3] * 4) + tried(later, 4))
    assert proposal.state == state
    assert (proposal.made_from.tasks, proposal.since.tasks) == (4, len(later))


def test_more_runs_of_the_tasks_that_it_was_made_from_admit_nothing() -> None:
    again = [outcome for n in range(9) for outcome in tried([1.3] * 4, run_id=f"again-{n}")]
    assert only(OTHER_VALUE + tried([1.3] * 4) + again).state == "proposed"


def test_where_nothing_carries_the_edit_out_the_proposal_is_guidance() -> None:
    finding = Finding(text="It won.", target="cuda/cuda", skill="cache-policy-hints", claim="helps")
    about = {"structure": "reduction", "bottleneck": "memory_bandwidth", "params": {"hint": "none"}}
    findings = [
        finding.model_copy(update=about | {"target": target}) for target in ("cuda/cuda", "cuda/triton")
    ]
    found = [skill_proposals([one], [], SKILLS, TARGETS)[0].skill for one in findings]
    assert [skill.lowering for skill in found] == [None, "schedule:triton-hints"]


def test_what_older_versions_noted_of_a_skill_keeps_its_name() -> None:
    assert TrialSubject("tile", "cpu/cpp", None, "compute").text == '["tile", "cpu/cpp", null, "compute"]'


def test_useless_values_are_not_claimed() -> None:
    outcomes = OTHER_VALUE + tried([0.9] * 20)
    assert not any(finding.params for finding in propose(outcomes, []))
    assert not any(finding.params for finding in learn(outcomes, []))


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([2, 8]), st.sampled_from([0.9, 1.4])), max_size=60)
)
@settings(max_examples=40)
def test_learning_run_by_run_proposes_what_learning_at_once_does(tries: list[tuple[int, int, float]]) -> None:
    outcomes = [
        outcome
        for n, (task, value, speedup) in enumerate(tries)
        for outcome in tried([speedup], task, {"unroll": value}, run_id=f"run-{n:03}")
    ]
    known: dict[str, Finding] = {}
    for n in range(len(outcomes)):
        known = {f.id: f for f in learn(outcomes[: n + 1], [], list(known.values()))}
    at_once = skill_proposals(learn(outcomes, []), outcomes, SKILLS, TARGETS)
    assert skill_proposals(known.values(), outcomes, SKILLS, TARGETS) == at_once


def test_whatever_is_proposed_is_a_file_without_fault() -> None:
    proposed = {}
    for skill in SKILLS.values():
        params = {name: values[-1] for name, values in skill.params.items()}
        for target in skill.targets if params else ():
            finding = Finding(text="It won.", target=target, skill=skill.name, params=params, claim="helps")
            about = {"structure": (*skill.structures, "reduction")[0], "bottleneck": skill.bottlenecks[0]}
            for found in skill_proposals([finding.model_copy(update=about)], [], SKILLS, TARGETS):
                text, path = skill_text(found.skill), Path(f"{found.skill.name}.md")
                assert parse_skill(text, path) == found.skill
                proposed[found.skill.name] = found.skill
    assert len(proposed) > 20 and lint(SKILLS | proposed, TARGETS) == ()

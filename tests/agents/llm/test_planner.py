"""The model Planner: one founded, untried move, or a named refusal."""

from dataclasses import replace

import pytest
from tests.agents.llm.conftest import BASE, FAILED, KERNEL

from kernelwright.agents.llm.asking import Asker
from kernelwright.agents.llm.coder import ModelCoder
from kernelwright.agents.llm.planner import ModelPlanner
from kernelwright.agents.llm.proposals import find_unfounded
from kernelwright.agents.llm.sources import fold
from kernelwright.agents.llm.span_markers import BEGINS, ENDS
from kernelwright.agents.roles import Situation
from kernelwright.core.errors import UnusableAnswer
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.plan import Move
from kernelwright.core.skill import Skill
from kernelwright.memory.short_term import ShortTermMemory
from kernelwright.testing.scripted_client import ScriptedClient

GOOD: dict[str, object] = {
    "skill": "unroll-accumulators",
    "why": "one accumulator",
    "evidence": ["run.floor_fraction = 0.0525"],
    "expects": "run.latency_ms -40 %",
    "steps": ["split `sum` into four", "2. add them after the loop"],
}


def planner(client: ScriptedClient, skills: dict[str, Skill]) -> ModelPlanner:
    return ModelPlanner(Asker(client, "planner", skills))


def test_a_founded_move_is_taken_with_numbered_steps(situation: Situation, skills: dict[str, Skill]) -> None:
    client = ScriptedClient({"planner": [GOOD]})
    choice = planner(client, skills).plan(situation)
    assert choice is not None and choice.anchored is None
    assert choice.move.skill == "unroll-accumulators"
    assert choice.move.text == "1. split `sum` into four\n2. add them after the loop"
    assert "0.0525" in choice.move.why and choice.move.expects == "run.latency_ms -40 %"
    assert client.notes == [] and len(client.asked) == 1
    assert "unroll-accumulators, streaming-stores, free" in client.asked[0].user


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"skill": "tensor-cores"}, "none of those offered: unroll-accumulators, streaming-stores, free"),
        ({"evidence": ["run.floor_fraction = 0.77"]}, "do not occur in the evidence: 0.77"),
        ({"evidence": []}, "no figure"),
        ({"evidence": ["it is slow"]}, "no figure"),
        ({"steps": []}, "needs steps"),
        ({"skill": "streaming-stores"}, "say in `differs` what is new"),
        ({"skill": "streaming-stores", "steps": ["store `out` around the caches"], "differs": "x"},
         "this very move was tried on this base"),
    ],
)  # fmt: skip
def test_a_refused_plan_is_asked_for_once_more_with_the_reason(
    change: dict[str, object], reason: str, situation: Situation, skills: dict[str, Skill]
) -> None:
    client = ScriptedClient({"planner": [{**GOOD, **change}, GOOD]})
    assert planner(client, skills).plan(situation) is not None
    assert [(n.role, n.outcome) for n in client.notes] == [("planner", CallOutcome.INVALID_OUTPUT)]
    assert reason in client.notes[0].detail
    assert reason in client.asked[1].user and reason not in client.asked[0].user


WRITTEN = f"""Skill: unroll-accumulators
Why: one accumulator
Evidence: run.floor_fraction = 0.0525; 4 ms
Expects: run.latency_ms -40 %
1 -> `relu_sum`: split the sum into four
```python
{fold(KERNEL)}OTHER = 1
```"""


def writer(client: ScriptedClient, skills: dict[str, Skill]) -> ModelPlanner:
    return ModelPlanner(Asker(client, "planner", skills), coder=Asker(client, "coder", skills))


def test_a_move_and_its_kernel_may_come_in_one_answer(situation: Situation, skills: dict[str, Skill]) -> None:
    client = ScriptedClient({"coder": [WRITTEN]})
    choice = writer(client, skills).plan(situation)
    assert choice is not None and choice.move.skill == "unroll-accumulators"
    assert "split the sum into four" in choice.move.text and "0.0525" in choice.move.why
    candidate = ModelCoder(Asker(client, "coder", skills)).write(situation, choice)
    assert len(client.asked) == 1 and candidate.source.endswith("OTHER = 1\n")
    assert candidate.parents == (BASE.id,) and candidate.plan == BASE.plan.then(choice.move)


def test_who_writes_the_kernel_too_is_asked_for_figures_where_there_are_some(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    client = ScriptedClient({"coder": [WRITTEN]})
    writer(client, skills).plan(situation)
    assert "\n    Evidence: " in client.asked[0].system
    writer(client, skills).plan(replace(situation, analysis=None))
    assert "Evidence: " not in client.asked[1].system


def test_a_kernel_that_comes_back_unchanged_is_asked_for_once_more(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    client = ScriptedClient({"coder": [WRITTEN.replace("OTHER = 1", ""), WRITTEN]})
    choice = writer(client, skills).plan(situation)
    assert choice is not None and choice.source is not None
    assert "the base came back unchanged" in client.asked[1].user


@pytest.mark.parametrize(
    ("was", "becomes", "skill", "kept", "lost"),
    [
        ("Skill: unroll-accumulators", "Skill: tensor-cores", "free", "0.0525", "tensor-cores"),
        ("Skill: unroll-accumulators", "Skill: `unroll-accumulators`", "unroll-accumulators", "0.0525", "`"),
        ("Skill: unroll-accumulators\n", "", "free", "0.0525", "!"),
        ("0.0525; 4 ms", "0.77; 4 ms", "unroll-accumulators", "(4 ms)", "0.77"),
        ("Evidence: run.floor_fraction = 0.0525; 4 ms\n", "", "unroll-accumulators", "one acc", "("),
        ("1 -> `relu_sum`", "1 -> `nowhere`", "unroll-accumulators", "0.0525", "!"),
        ("1 -> `relu_sum`: split the sum into four", "", "unroll-accumulators", "0.0525", "!"),
    ],
)
def test_a_kernel_is_judged_whatever_is_wrong_with_the_words_beside_it(
    was: str, becomes: str, skill: str, kept: str, lost: str, situation: Situation, skills: dict[str, Skill]
) -> None:
    assert was in WRITTEN
    client = ScriptedClient({"coder": [WRITTEN.replace(was, becomes)]})
    choice = writer(client, skills).plan(situation)
    assert choice is not None and choice.source is not None and choice.source.endswith("OTHER = 1\n")
    assert choice.move.skill == skill and kept in choice.move.why and lost not in choice.move.why
    assert choice.move.text and len(client.asked) == 1 and client.notes == []


def test_another_kernel_for_the_same_words_is_another_move(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    words = WRITTEN.replace("unroll-accumulators", FAILED.skill)
    words = words.replace(
        "1 -> `relu_sum`: split the sum into four", f"1 -> {FAILED.text.partition('. ')[2]}"
    )
    choice = writer(ScriptedClient({"coder": [words]}), skills).plan(situation)
    assert choice is not None and choice.move.skill == FAILED.skill
    assert situation.memory.attempt(BASE.id, FAILED) is not None and choice.move.key != FAILED.key
    assert choice.move.text.startswith(FAILED.text)


def test_an_answer_may_hold_several_moves_with_their_kernels(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    client = ScriptedClient({"coder": [WRITTEN + "\n" + WRITTEN.replace("OTHER = 1", "OTHER = 2")]})
    planner = ModelPlanner(Asker(client, "planner"), coder=Asker(client, "coder", skills, kernels=3))
    choice = planner.plan(situation)
    assert choice is not None and len(choice.further) == 1 and "up to 3" in client.asked[0].system
    second = choice.further[0]
    assert second.move.skill == choice.move.skill and second.move.key != choice.move.key
    coder = ModelCoder(Asker(client, "coder", skills))
    made = [coder.write(situation, one) for one in (choice, second)]
    assert len({one.id for one in made}) == 2 and {one.call for one in made} == {"call 1"}


def test_no_more_kernels_are_asked_for_than_can_be_evaluated(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    client = ScriptedClient({"coder": [WRITTEN]})
    planner = ModelPlanner(Asker(client, "planner"), coder=Asker(client, "coder", skills, kernels=3))
    planner.plan(replace(situation, evaluations_left=2))
    planner.plan(replace(situation, evaluations_left=1))
    assert "up to 2 different kernels" in client.asked[0].system
    assert "exactly one Python block" in client.asked[1].system


def test_marked_spans_always_take_two_answers(situation: Situation, skills: dict[str, Skill]) -> None:
    client = ScriptedClient({"planner": ["no"], "coder": [WRITTEN]})
    with pytest.raises(UnusableAnswer):
        writer(client, skills).plan(replace(situation, wants_anchors=True))
    assert {asked.role for asked in client.asked} == {"planner"}


def test_two_refusals_end_the_step_by_name(situation: Situation, skills: dict[str, Skill]) -> None:
    client = ScriptedClient({"planner": [{**GOOD, "skill": "nothing"}]})
    with pytest.raises(UnusableAnswer, match=r"^invalid_output: skill 'nothing'"):
        planner(client, skills).plan(situation)
    assert len(client.asked) == 2


def test_a_failure_of_the_api_is_not_asked_again(situation: Situation, skills: dict[str, Skill]) -> None:
    client = ScriptedClient({"planner": [CallOutcome.SERVER_ERROR]})
    with pytest.raises(UnusableAnswer, match=r"^server_error"):
        planner(client, skills).plan(situation)
    assert len(client.asked) == 1 and client.notes == []


def test_a_tried_skill_may_be_taken_again_with_a_difference(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    again = {**GOOD, "skill": "streaming-stores", "differs": "only for whole lines"}
    choice = planner(ScriptedClient({"planner": [again]}), skills).plan(situation)
    assert choice is not None and choice.move.key != FAILED.key


def test_without_short_term_memory_a_repetition_is_not_noticed(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    blank = replace(situation, memory=ShortTermMemory(), has_short_term=False)
    again = {**GOOD, "skill": "streaming-stores"}
    assert planner(ScriptedClient({"planner": [again]}), skills).plan(blank) is not None


def test_without_long_term_memory_no_skill_is_shown_or_offered(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    own_idea = {**GOOD, "skill": "free", "differs": "all"}
    client = ScriptedClient({"planner": [GOOD, own_idea]})
    choice = planner(client, skills).plan(replace(situation, has_long_term=False))
    assert choice is not None and choice.move.skill == "free"
    assert "none of those offered" in client.notes[0].detail
    assert "ranked by code" not in client.asked[0].user


def test_timings_alone_leave_only_moves_in_words(situation: Situation, skills: dict[str, Skill]) -> None:
    client = ScriptedClient({"planner": [{**GOOD, "skill": "free", "evidence": [], "differs": "all"}]})
    choice = planner(client, skills).plan(replace(situation, timings_only=True))
    assert choice is not None and choice.move.skill == "free"


def test_anchors_are_checked_against_the_base(situation: Situation, skills: dict[str, Skill]) -> None:
    marked = KERNEL.replace("    float sum = 0.0f;\n", f"{BEGINS}\n    float sum = 0.0f;\n{ENDS}\n")
    changed = marked.replace("out[row] = sum", "out[row] = 0")
    script = [{**GOOD, "anchored_source": changed}, {**GOOD, "anchored_source": marked}]
    client = ScriptedClient({"planner": script})
    choice = planner(client, skills).plan(replace(situation, wants_anchors=True))
    assert choice is not None and choice.anchored == marked
    assert "not the base's source" in client.notes[0].detail
    assert BEGINS in client.asked[0].system


def test_for_an_expert_coder_it_chooses_among_concrete_moves(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    moves = [Move(skill="tile-columns", region="r_sum", params={"tile": n}, why="rows") for n in (32, 64)]
    client = ScriptedClient({"planner": [GOOD, {**GOOD, "skill": "m2", "steps": []}]})
    choice = ModelPlanner(Asker(client, "planner", skills), lambda _: moves).plan(situation)
    assert choice is not None and choice.move.key == moves[1].key
    assert choice.move.why.startswith("one accumulator")
    assert "m2: tile-columns on r_sum (tile=64): rows" in client.asked[0].user
    assert ModelPlanner(Asker(client, "planner", skills), lambda _: []).plan(situation) is None


def test_without_a_base_there_is_nothing_to_plan(situation: Situation, skills: dict[str, Skill]) -> None:
    assert planner(ScriptedClient({}), skills).plan(replace(situation, base=None)) is None


@pytest.mark.parametrize(
    ("quote", "is_founded"),
    [("0.3126", True), ("0.31", True), ("31 %", True), ("31.3%", True), ("0.32", False), ("1.2e7", True),
     ("1.25e7", False), ("12000000", True), ("r0 and conv2d", False), ("4 of 12000000", False),
     ("0.3126 of 12000000 is 38387716", True), ("12000000 is 40 times 0.3126", False)],
)  # fmt: skip
def test_figures_may_be_rounded_in_per_cent_or_quotients_of_others(quote: str, is_founded: bool) -> None:
    evidence = "run.floor_fraction = 0.3126; bytes 12000000; r0"
    assert (find_unfounded([quote], evidence) is None) is is_founded


def test_the_base_is_the_one_that_was_tried(situation: Situation) -> None:
    assert situation.memory.tried(BASE.id)

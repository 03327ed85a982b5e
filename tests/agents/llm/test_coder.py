"""The model Coder: every step accounted for, every span resolved, or a named refusal."""

from dataclasses import replace

import pytest
from tests.agents.llm.conftest import BASE, KERNEL

from kernelwright.agents.llm.asking import Asker
from kernelwright.agents.llm.coder import ModelCoder
from kernelwright.agents.llm.sources import fold
from kernelwright.agents.llm.span_markers import BEGINS, ENDS
from kernelwright.agents.roles import Choice, Situation
from kernelwright.core.errors import LoweringError, UnusableAnswer
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.plan import Move, Plan
from kernelwright.core.skill import Skill
from kernelwright.testing.scripted_client import ScriptedClient

MOVE = Move(skill="unroll-accumulators", text="1. split `sum` into four\n2. add them after the loop")
NEW = KERNEL.replace("float sum = 0.0f;", "float sum = 0.0f, more = 0.0f;")
ACCOUNT = "1 -> `relu_sum`: four sums\n2 -> `sum`: added\n"
ANCHORED = KERNEL.replace("    float sum = 0.0f;\n", f"{BEGINS}\n    float sum = 0.0f;\n{ENDS}\n")


def answer(source: str, account: str = ACCOUNT) -> str:
    return f"{account}\n```python\n{fold(source)}```\n"


def coder(skills: dict[str, Skill], *answers: str | CallOutcome) -> tuple[ModelCoder, ScriptedClient]:
    client = ScriptedClient({"coder": list(answers)})
    return ModelCoder(Asker(client, "coder", skills)), client


def test_a_plan_becomes_a_candidate_with_the_move_in_its_plan(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    writer, client = coder(skills, answer(NEW))
    written = writer.write(situation, Choice(MOVE))
    assert written.source == NEW and written.parents == (BASE.id,) and written.role == "coder"
    assert written.plan == BASE.plan.then(MOVE)
    assert "2. add them after the loop" in client.asked[0].user and client.notes == []


@pytest.mark.parametrize(
    ("text", "outcome", "reason"),
    [
        (answer(NEW, "1 -> `relu_sum`: done\n"), CallOutcome.UNRESOLVED_ANCHOR, "step 2"),
        (answer(NEW, "1 -> `relu_sum`: a\n2 -> `elsewhere`: b\n"), CallOutcome.UNRESOLVED_ANCHOR, "step 2"),
        (answer(KERNEL), CallOutcome.UNRESOLVED_ANCHOR, "unchanged"),
        (answer(ANCHORED), CallOutcome.UNRESOLVED_ANCHOR, "marker"),
        (answer(NEW.replace("out[row] = sum;", "out[row] = sum + more;")),
         CallOutcome.UNRESOLVED_ANCHOR, "outside the marked spans"),
        ("I would unroll it.", CallOutcome.NO_CODE, "ModelNew"),
        (ACCOUNT, CallOutcome.NO_CODE, "ModelNew"),
    ],
)  # fmt: skip
def test_an_unusable_answer_is_named_noted_and_asked_for_once_more(
    text: str, outcome: CallOutcome, reason: str, situation: Situation, skills: dict[str, Skill]
) -> None:
    writer, client = coder(skills, text, answer(NEW))
    written = writer.write(situation, Choice(MOVE, anchored=ANCHORED))
    assert written.source == NEW
    assert [(note.role, note.outcome) for note in client.notes] == [("coder", outcome)]
    assert reason in client.notes[0].detail and client.notes[0].detail in client.asked[1].user
    writer, client = coder(skills, text)
    with pytest.raises(UnusableAnswer, match=rf"^{outcome.value}: "):
        writer.write(situation, Choice(MOVE, anchored=ANCHORED))
    assert len(client.asked) == 2


def test_text_outside_the_spans_may_change_when_accounted_for(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    source = NEW.replace("out[row] = sum;", "out[row] = sum + more;")
    writer, _ = coder(skills, answer(source, ACCOUNT + "outside -> `out`: adds the second sum\n"))
    assert writer.write(situation, Choice(MOVE, anchored=ANCHORED)).source == source


@pytest.mark.parametrize("outcome", [CallOutcome.EMPTY, CallOutcome.TRUNCATED])
def test_an_answer_that_stopped_short_is_asked_for_once_more(
    outcome: CallOutcome, situation: Situation, skills: dict[str, Skill]
) -> None:
    writer, client = coder(skills, outcome, answer(NEW))
    assert writer.write(situation, Choice(MOVE)).source == NEW
    assert client.notes == [] and outcome.value in client.asked[1].user


def test_a_move_of_the_expert_is_one_step(situation: Situation, skills: dict[str, Skill]) -> None:
    move = Move(skill="tile-columns", region="r_sum", params={"tile": 64}, why="rows of 4 KB")
    writer, client = coder(skills, answer(NEW, "1 -> `relu_sum`: tiled\n"))
    assert writer.write(situation, Choice(move)).plan.moves[-1] == move
    assert "1. tile-columns on r_sum (tile=64): rows of 4 KB" in client.asked[0].user
    assert "## Skill `tile-columns`" in client.asked[0].user


def test_only_algebra_may_do_without_a_kernel(situation: Situation, skills: dict[str, Skill]) -> None:
    plain = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
    text = f"1 -> `forward`: summed first\n```python\n{plain}```"
    writer, _ = coder(skills, text)
    algebra = Move(skill="reassociate-reduction", text="1. sum first")
    assert writer.write(situation, Choice(algebra)).source == plain
    with pytest.raises(UnusableAnswer, match=r"^wrong_language"):
        writer.write(situation, Choice(Move(skill="free", text="1. sum first")))


def test_a_whole_plan_is_translated_move_by_move(situation: Situation, skills: dict[str, Skill]) -> None:
    plan = Plan(moves=(MOVE, Move(skill="free", text="1. widen")))
    writer, client = coder(skills, answer(NEW))
    made = writer.translate(situation, plan)
    assert made.plan == plan and made.parents == (BASE.id,)
    assert "2. free Steps: 1. widen" in client.asked[0].user.replace("free. Steps", "free Steps")
    with pytest.raises(LoweringError, match="no moves"):
        writer.translate(situation, Plan())


def test_rewrites_are_told_apart_and_unusable_ones_left_out(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    first = f"Change: two sums\n{answer(NEW, '')}"
    writer, client = coder(skills, first, first, "no", "no", answer(NEW + "OTHER = 1\n", ""))
    made = writer.rewrite(situation, 4)
    assert len(made) == 2 and all(c.parents == (BASE.id,) for c in made)
    assert made[0].plan.moves[-1] == Move(skill="rewrite", text="two sums")
    assert [n.outcome for n in client.notes] == [CallOutcome.NO_CODE] * 2
    assert "answer 2 of 4" in client.asked[1].user and "answer 1 of" not in client.asked[0].user


def test_an_answer_may_hold_several_kernels_each_a_candidate_of_the_same_call(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    several = "\n".join(
        [
            f"Change: two sums\n{answer(NEW, '')}",
            f"Change: nothing\n{answer(KERNEL, '')}",
            f"Change: two sums\n{answer(NEW, '')}",
            answer(NEW + "OTHER = 1\n", ""),
            answer(NEW + "OTHER = 2\n", ""),
            answer(NEW + "OTHER = 3\n", ""),
        ]
    )
    client = ScriptedClient({"coder": [several, answer(NEW + "OTHER = 4\n", "")]})
    made = ModelCoder(Asker(client, "coder", skills, kernels=3)).rewrite(situation, 4)
    assert [one.source.removeprefix(NEW) for one in made] == ["", "OTHER = 1\n", "OTHER = 2\n", "OTHER = 4\n"]
    assert [one.call for one in made] == ["call 1"] * 3 + ["call 2"]
    assert len({one.plan.moves[-1].key for one in made}) == 4
    assert "Give up to 3 different kernels" in client.asked[0].system
    assert "Give exactly one" in client.asked[1].system and client.notes == []


def test_an_answer_without_one_usable_kernel_is_named_by_its_first(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    client = ScriptedClient({"coder": [answer(KERNEL, "") + answer(KERNEL + "# the same\n", "")]})
    with pytest.raises(UnusableAnswer, match="came back unchanged"):
        ModelCoder(Asker(client, "coder", skills, kernels=2)).rewrite(situation, 2)
    assert {note.outcome for note in client.notes} == {CallOutcome.UNRESOLVED_ANCHOR}


def test_rewrites_of_a_failing_base_see_how_it_fails(broken: Situation, skills: dict[str, Skill]) -> None:
    writer, client = coder(skills, answer(NEW, ""))
    assert writer.rewrite(broken, 1)
    assert "-400.2" in client.asked[0].user and "make it right first" in client.asked[0].system


def test_no_usable_rewrite_is_a_named_outcome(situation: Situation, skills: dict[str, Skill]) -> None:
    writer, _ = coder(skills, "no")
    with pytest.raises(UnusableAnswer, match=r"^no_code"):
        writer.rewrite(situation, 2)
    writer, client = coder(skills, answer(NEW, ""))
    assert writer.rewrite(replace(situation, base=None), 1)[0].parents == ()
    assert "Write a fast kernel for this module" in client.asked[0].user


def test_a_base_in_other_words_is_the_base_unchanged(situation: Situation, skills: dict[str, Skill]) -> None:
    reworded = BASE.source.replace("class ModelNew", "# now faster\n\nclass ModelNew")
    writer, client = coder(skills, answer(reworded, ""))
    with pytest.raises(UnusableAnswer, match="came back unchanged"):
        writer.rewrite(situation, 1)
    assert client.asked

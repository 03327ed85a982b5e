"""What a model asks this machine before it answers, over a real local server in two protocols."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import pytest
from lab.servers.bad_server import BadServer, Behaviour, Request, calls, says, status
from lab.servers.messages_protocol import replies, uses
from pydantic import BaseModel
from tests.agents.llm.conftest import Scale, Weighed

from kernelwright.agents.llm.asking import Asker
from kernelwright.agents.llm.coder import ModelCoder
from kernelwright.agents.llm.model_client import ModelClient
from kernelwright.agents.llm.planner import ModelPlanner
from kernelwright.agents.llm.tape import MemoryTape, ReplayOnly, Tape
from kernelwright.agents.llm.tool_turns import NO_TIME, NOT_YET, USED_UP
from kernelwright.agents.llm.tools import READ_SKILL, RESULT_TOKENS, OfferedTools, Tool, Toolbox
from kernelwright.agents.llm.window import estimate_tokens
from kernelwright.agents.roles import Choice, Situation
from kernelwright.core.budget import Budget, Meter
from kernelwright.core.errors import BudgetUsedUp, LoweringError, UnusableAnswer, UserError
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.models import ModelSettings, OutputMode
from kernelwright.core.plan import Move
from kernelwright.core.skill import Skill
from kernelwright.testing.scripted_client import ScriptedClient


class Idea(BaseModel):
    """A role's answer."""

    skill: str


GOOD = '{"skill": "tiling"}'
FINAL = "the answer"


async def no_sleep(seconds: float) -> None:
    """Do not wait."""


def connect(
    url: str, budget: Budget | None = None, *, tape: Tape | None = None, **settings: object
) -> tuple[ModelClient, Meter]:
    meter = Meter(budget or Budget(), lambda: 0.0)
    chosen = ModelSettings.model_validate({"model": "openai:scripted", "base_url": url, **settings})
    return ModelClient(chosen, meter, tape or MemoryTape(), sleep=no_sleep), meter


def asked(*script: Behaviour, tools: OfferedTools, budget: Budget | None = None) -> tuple[str, list[Request]]:
    """Return the answer to one question, and the requests it took."""
    with BadServer(*script) as server:
        client, meter = connect(server.url, budget)
        reply = client.ask_text("coder", "You write.", "Write.", tools)
        assert meter.spent.model_calls == len(server.requests)
        assert reply.outcome is CallOutcome.OK
        return reply.text, server.requests


def told(request: Request) -> list[str]:
    """Return what tools said in a request."""
    return [m["content"] for m in request.body["messages"] if m["role"] == "tool"]


def test_a_tool_is_carried_out_and_its_words_come_with_the_next_request(
    scale: Scale, offered: OfferedTools
) -> None:
    text, (first, second) = asked(calls(("weigh", {"stone": "granite"})), says(FINAL), tools=offered)
    assert text == FINAL
    assert scale.carried == [Weighed("granite")]
    (definition,) = first.body["tools"]
    assert definition["function"]["name"] == "weigh"
    assert definition["function"]["parameters"]["properties"].keys() == {"stone", "times"}
    assert "2 calls in all" in first.body["messages"][0]["content"]
    assert told(second) == offered.heard == ["granite weighs 17 g (weighing 1)"]
    roles = [message["role"] for message in second.body["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]


def test_a_model_that_asks_no_tool_costs_one_request(scale: Scale, offered: OfferedTools) -> None:
    text, requests = asked(says(FINAL), tools=offered)
    assert (text, len(requests), scale.carried) == (FINAL, 1, [])


def test_calls_beyond_the_limit_are_not_carried_out(scale: Scale, offered: OfferedTools) -> None:
    three = calls(*(("weigh", {"stone": stone}) for stone in ("a", "b", "c")))
    text, (_, second) = asked(three, says(FINAL), tools=offered)
    assert text == FINAL
    assert [one.stone for one in scale.carried] == ["a", "b"]
    assert told(second)[2] == USED_UP
    assert second.body["tool_choice"] == "none", "the definitions stay: protocols want them beside the calls"


def test_a_server_that_goes_on_calling_gets_no_further_turn(scale: Scale, offered: OfferedTools) -> None:
    with BadServer(calls(("weigh", {"stone": "a"}))) as server:
        client, _ = connect(server.url)
        assert client.ask_text("coder", "You write.", "Write.", offered).outcome is CallOutcome.EMPTY
        assert len(server.requests) == 1 + offered.most_calls
    assert len(scale.carried) == offered.most_calls


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("weigh", {}, "stone: Field required"),
        ("weigh", "", "stone: Field required"),
        ("weigh", {"stone": "a", "times": "many"}, "times: Input should be a valid integer"),
        ("weigh", '{"stone": ', "Invalid JSON"),
        ("weigh", "[]", "do not conform"),
        ("weigh", {"stone": "none"}, "That cannot be done: there is no such stone"),
        ("shell", {"command": "id"}, "There is no tool 'shell'; there are: weigh"),
    ],
)
def test_a_bad_call_is_words_for_the_model(
    name: str, arguments: object, said: str, offered: OfferedTools
) -> None:
    text, (_, second) = asked(calls((name, arguments)), says(FINAL), tools=offered)
    assert text == FINAL
    assert said in told(second)[0]


def test_a_long_result_is_cut(offered: OfferedTools) -> None:
    _, (_, second) = asked(calls(("weigh", {"stone": "endless"})), says(FINAL), tools=offered)
    assert estimate_tokens(told(second)[0]) <= RESULT_TOKENS


def test_no_key_of_the_environment_reaches_a_server_through_a_tool(
    monkeypatch: pytest.MonkeyPatch, offered: OfferedTools
) -> None:
    monkeypatch.setenv("SOME_SECRET", "hush-0123456789")
    _, (_, second) = asked(calls(("weigh", {"stone": "hush-0123456789"})), says(FINAL), tools=offered)
    assert "hush" not in told(second)[0]


@pytest.mark.parametrize(
    ("granted", "followers", "is_offered"), [(1, 0, False), (2, 0, True), (2, 1, False), (3, 1, True)]
)
def test_a_tool_is_offered_only_where_the_budget_leaves_the_answer_its_request(
    granted: int, followers: int, is_offered: bool, offered: OfferedTools
) -> None:
    tools = replace(offered, followers=followers)
    _, (request, *_) = asked(says(FINAL), tools=tools, budget=Budget(model_calls=granted))
    assert ("tools" in request.body) == is_offered
    assert ("# Tools" in request.text()) == is_offered


def test_the_last_request_of_a_budget_is_the_answers(scale: Scale, offered: OfferedTools) -> None:
    script = (calls(("weigh", {"stone": "a"})), calls(("weigh", {"stone": "b"})), says(FINAL))
    text, (_, last) = asked(script[0], script[2], tools=offered, budget=Budget(model_calls=2))
    assert (text, last.body["tool_choice"], len(scale.carried)) == (FINAL, "none", 1)


def test_tokens_of_turns_count_in_the_budget(offered: OfferedTools) -> None:
    with BadServer(calls(("weigh", {"stone": "a"})), says(FINAL)) as server:
        client, meter = connect(server.url, Budget(tokens=18))
        with pytest.raises(BudgetUsedUp):
            client.ask_text("coder", "You write.", "Write.", offered)
        assert (meter.spent.tokens, len(server.requests)) == (18, 1)


@pytest.mark.parametrize(("seconds", "is_carried"), [(59.0, False), (600.0, True)])
def test_no_tool_is_carried_out_when_the_time_is_nearly_used_up(
    seconds: float, is_carried: bool, scale: Scale, offered: OfferedTools
) -> None:
    script = (calls(("weigh", {"stone": "a"})), says(FINAL))
    text, (_, second) = asked(*script, tools=offered, budget=Budget(seconds=seconds))
    assert text == FINAL
    assert (told(second) == [NO_TIME]) is not is_carried
    assert bool(scale.carried) is is_carried


def test_what_a_tool_said_is_on_the_tape_and_is_not_carried_out_again(
    scale: Scale, offered: OfferedTools
) -> None:
    tape = MemoryTape()
    with BadServer(calls(("weigh", {"stone": "a"})), calls(("weigh", {"stone": "a"})), says(FINAL)) as server:
        client, spent = connect(server.url, tape=tape)
        assert client.ask_text("coder", "You write.", "Write.", offered).text == FINAL
        assert len(server.requests) == 3
    kinds = [call.tool for call in tape.calls()]
    assert kinds == [None, "weigh", None, "weigh", None]
    assert len({call.key for call in tape.calls()}) == 5
    told_first = list(offered.heard)
    for again in (tape, ReplayOnly(tape)):  # a run that goes on after it was killed; a recorded run
        offered.heard.clear()
        with BadServer(status(500)) as server:
            client, meter = connect(server.url, tape=again)
            assert client.ask_text("coder", "You write.", "Write.", offered).text == FINAL
            assert server.requests == []
        assert meter.spent == spent.spent
        assert offered.heard == told_first
    assert len(scale.carried) == 2


def test_a_run_that_was_killed_within_a_turn_goes_on_there(scale: Scale, offered: OfferedTools) -> None:
    whole, cut = MemoryTape(), MemoryTape()
    with BadServer(calls(("weigh", {"stone": "a"})), says(FINAL)) as server:
        connect(server.url, tape=whole)[0].ask_text("coder", "You write.", "Write.", offered)
    for call in list(whole.calls())[:2]:  # the model's call and the tool's words; the answer never came
        cut.add(call)
    with BadServer(says("another answer")) as server:
        client, meter = connect(server.url, tape=cut)
        assert client.ask_text("coder", "You write.", "Write.", offered).text == "another answer"
        assert (len(server.requests), meter.spent.model_calls) == (1, 2)
        assert told(server.requests[0]) == ["a weighs 17 g (weighing 1)"]
    assert len(scale.carried) == 1


def test_a_replay_that_asks_another_tool_is_one_line(offered: OfferedTools) -> None:
    tape = MemoryTape()
    with BadServer(calls(("weigh", {"stone": "a"})), says(FINAL)) as server:
        connect(server.url, tape=tape)[0].ask_text("coder", "You write.", "Write.", offered)
    first, _, last = tape.calls()
    broken = MemoryTape()
    broken.add(first)
    broken.add(last)
    client, _ = connect("http://127.0.0.1:1/v1", tape=ReplayOnly(broken))
    with pytest.raises(UserError, match="what the tool weigh says"):
        client.ask_text("coder", "You write.", "Write.", offered)


@pytest.mark.parametrize("mode", ["prompted", "native"])
def test_a_structured_answer_after_a_turn(mode: OutputMode, scale: Scale, offered: OfferedTools) -> None:
    with BadServer(calls(("weigh", {"stone": "a"})), says("prose"), says(GOOD)) as server:
        client, meter = connect(server.url, output_mode=mode)
        assert client.ask("planner", "You plan.", "Plan.", Idea, offered).value == Idea(skill="tiling")
        assert meter.spent.model_calls == 3
        corrected = [message["role"] for message in server.requests[2].body["messages"]]
    assert corrected == ["system", "user", "assistant", "user"], "a correction is about the answer alone"
    assert len(scale.carried) == 1


def test_a_structured_answer_by_a_tool_of_its_own(scale: Scale, offered: OfferedTools) -> None:
    def answer(exchange: object) -> None:
        names = [tool["function"]["name"] for tool in exchange.request.body["tools"]]  # type: ignore[attr-defined]
        own = next(name for name in names if name != "weigh")
        calls((own, {"skill": "tiling"}))(exchange)  # type: ignore[arg-type]

    with BadServer(calls(("weigh", {"stone": "a"})), answer) as server:
        client, _ = connect(server.url, output_mode="tool")
        assert client.ask("planner", "You plan.", "Plan.", Idea, offered).value == Idea(skill="tiling")
        assert len(server.requests) == 2
    assert len(scale.carried) == 1


def test_an_answer_beside_a_call_waits_for_what_the_tool_says(offered: OfferedTools) -> None:
    turn = count()

    def answer(exchange: object) -> None:
        names = [tool["function"]["name"] for tool in exchange.request.body["tools"]]  # type: ignore[attr-defined]
        own = next(name for name in names if name != "weigh")
        both = [(own, {"skill": "hasty"}), ("weigh", {"stone": "a"})]
        calls(*(both if next(turn) == 0 else [(own, {"skill": "tiling"})]))(exchange)  # type: ignore[arg-type]

    with BadServer(answer) as server:
        client, _ = connect(server.url, output_mode="tool")
        assert client.ask("planner", "You plan.", "Plan.", Idea, offered).value == Idea(skill="tiling")
        assert NOT_YET in told(server.requests[1])


def test_the_messages_protocol_has_the_same_turns(
    monkeypatch: pytest.MonkeyPatch, scale: Scale, offered: OfferedTools
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_API_KEY", "sk-messages-0123456789")
    script = (uses("weigh", {"stone": "a"}), uses("weigh", {"stone": "b"}), replies(FINAL))
    with BadServer(*script) as server:
        client, meter = connect(server.root, model="anthropic:claude-scripted")
        assert client.ask_text("coder", "You write.", "Write.", offered).text == FINAL
        last = server.requests[2].body
    assert meter.spent.model_calls == 3
    assert [one.stone for one in scale.carried] == ["a", "b"]
    assert [tool["name"] for tool in last["tools"]] == ["weigh"]
    assert last["tool_choice"] == {"type": "none"}
    results = [b for m in last["messages"] for b in m["content"] if b.get("type") == "tool_result"]
    assert "b weighs 17 g" in str(results[1]["content"])


@pytest.fixture
def planning(situation: Situation, scale: Scale) -> Iterator[Toolbox]:
    yield Toolbox((Tool("weigh", "Weigh a stone.", Weighed, scale.weigh),), most_calls=1)


def test_a_planner_may_quote_what_a_tool_said(situation: Situation, planning: Toolbox) -> None:
    move = {
        "skill": "unroll-accumulators",
        "why": "stones are heavy",
        "evidence": ["basalt weighs 31337 g"],
        "expects": "latency down",
        "steps": ["unroll"],
    }
    script = (calls(("weigh", {"stone": "basalt weighs 31337 g:"})), says(json.dumps(move)))
    with BadServer(*script) as server:
        client, _ = connect(server.url)
        choice = ModelPlanner(Asker(client, "planner", toolbox=planning)).plan(situation)
        assert choice is not None and choice.move.skill == "unroll-accumulators"
        assert len(server.requests) == 2


def test_a_small_context_gives_tools_a_share_or_none(situation: Situation, scale: Scale) -> None:
    box = Toolbox((Tool("weigh", "Weigh a stone.", Weighed, scale.weigh),), most_calls=2)
    offered, reserved = box.offer(situation, "planner", 8_000, needed=5_000, followers=0)
    assert offered is not None and offered.total_tokens is not None
    assert 0 < reserved <= 8_000 // 4
    assert offered.result_tokens * 2 <= offered.total_tokens < reserved
    assert box.offer(situation, "planner", 8_000, needed=7_500, followers=0) == (None, 0)
    assert box.offer(situation, "planner", 2_000, needed=500, followers=0) == (None, 0)
    assert box.offer(situation, "planner", None, needed=5_000, followers=0)[1] == 0
    assert box.offer(situation, "planner", 10**6, needed=5_000, followers=0)[1] == 0, (
        "there is room beside it"
    )


def test_in_a_small_context_only_the_last_turn_is_told(offered: OfferedTools) -> None:
    small = replace(offered, total_tokens=400, result_tokens=200)
    turn = calls(("weigh", {"stone": "endless"}))
    _, (*_, last) = asked(turn, turn, says(FINAL), tools=small)
    roles = [message["role"] for message in last.body["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    assert estimate_tokens(told(last)[0]) <= 200


def test_what_a_recipe_withholds_no_tool_tells(situation: Situation, scale: Scale) -> None:
    def refuse(situation: Situation, asked: Weighed) -> str:
        raise LoweringError("never carried out here")

    tools = (
        Tool("draft", "", Weighed, scale.weigh, is_of_draft=True),
        Tool("fact", "", Weighed, refuse),
        Tool("base", "", Weighed, refuse, needs_base=True),
        Tool("skill", "", Weighed, refuse, needs_long_term=True),
    )

    def names(of: Situation) -> list[str]:
        found, _ = Toolbox(tools, 1).offer(of, "coder_rewrite", None, needed=0, followers=0)
        return [] if found is None else [tool.name for tool in found.tools]

    assert names(situation) == ["draft", "fact", "base", "skill"]
    assert names(replace(situation, base=None)) == ["draft", "fact", "skill"]
    assert names(replace(situation, timings_only=True)) == ["draft"]
    assert names(replace(situation, has_long_term=False)) == ["draft", "fact", "base"]


@dataclass(frozen=True)
class Named:
    """A stub's argument."""

    name: str


@pytest.mark.parametrize(("tool", "is_shown"), [(READ_SKILL, False), ("weigh", True), (None, True)])
def test_skills_stand_in_full_only_where_their_text_cannot_be_asked_for(
    tool: str | None, is_shown: bool, situation: Situation, skills: dict[str, Skill]
) -> None:
    box = None if tool is None else Toolbox((Tool(tool, "", Named, lambda *_: ""),), most_calls=1)
    client = ScriptedClient({"coder": ["no"]})
    asker = Asker(client, "coder", skills, toolbox=box)
    with pytest.raises(UnusableAnswer):
        ModelPlanner(asker, coder=asker).plan(situation)
    user = client.asked[0].user
    assert ("## Skill `unroll-accumulators`" in user) is is_shown
    assert skills["unroll-accumulators"].summary in user
    assert (f"`{READ_SKILL}` shows one in full" in user) is not is_shown


def test_a_planned_skill_stands_in_full_for_who_carries_it_out(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    box = Toolbox((Tool(READ_SKILL, "", Named, lambda *_: ""),), most_calls=1)
    client = ScriptedClient({"coder": ["no"]})
    with pytest.raises(UnusableAnswer):
        ModelCoder(Asker(client, "coder", skills, toolbox=box)).write(
            situation, Choice(Move(skill="unroll-accumulators", text="1. four sums"))
        )
    assert "## Skill `unroll-accumulators`" in client.asked[0].user

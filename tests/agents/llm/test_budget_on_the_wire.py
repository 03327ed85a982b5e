"""Everything that is sent for a structured answer, schema and corrections included, keeps to the budget."""

import contextlib
import json
from typing import Any

import pytest
from lab.servers.bad_server import BadServer, Request, calls_tool, says
from tests.agents.llm.test_client import no_sleep
from tests.agents.llm.test_prompts import FACTS, crowded

from kernelwright.agents.llm.answers import Judged
from kernelwright.agents.llm.asking import Asker
from kernelwright.agents.llm.context_check import STRUCTURED, least_prompt, require_room
from kernelwright.agents.llm.model_client import ModelClient
from kernelwright.agents.llm.outputs import ProposedMove
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.tape import MemoryTape
from kernelwright.agents.llm.window import WINDOWS, estimate_tokens
from kernelwright.agents.roles import Situation
from kernelwright.core.budget import Budget, Meter
from kernelwright.core.errors import BudgetUsedUp, UnusableAnswer, UserError
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.models import ModelSettings
from kernelwright.core.skill import Skill
from kernelwright.core.target import TargetName

GOOD = json.dumps({"skill": "free", "why": "it is slow"})
PROSE = "I would rather talk about the weather. " * 1_000
WRONG = json.dumps({"skill": 1, "why": ["no", "sentence"], "steps": "x" * 30_000})


def sent_tokens(request: Request) -> int:
    """Return the estimate of all that a request holds for the model to read."""
    texts = [str(message.get("content") or "") for message in request.body["messages"]]
    calls = [call for message in request.body["messages"] for call in message.get("tool_calls") or ()]
    texts += [call["function"]["arguments"] for call in calls]
    texts += [json.dumps(tool["function"]) for tool in request.body.get("tools") or ()]
    return sum(map(estimate_tokens, texts))


def settings_for(server: BadServer, **more: Any) -> ModelSettings:
    return ModelSettings.model_validate({"model": "openai:m", "base_url": server.url, **more})


def taken(value: Any) -> Judged[Any]:
    return Judged(CallOutcome.OK, value)


@pytest.mark.parametrize("name", sorted(STRUCTURED))
def test_a_question_keeps_to_its_window_with_its_schema(
    name: str, situation: Situation, broken: Situation, skills: dict[str, Skill]
) -> None:
    told = crowded(PromptInput(broken if name.startswith("debugger") else situation, skills))
    with BadServer(says("{}")) as server:
        client = ModelClient(settings_for(server), Meter(Budget(model_calls=1), lambda: 0.0), MemoryTape())
        asker = Asker(client, name.partition("_")[0], skills)
        with contextlib.suppress(BudgetUsedUp):  # most roles would correct the empty answer
            asker.structured(name, told, STRUCTURED[name], taken, **FACTS[name])
        (request,) = server.requests
    assert sent_tokens(request) <= WINDOWS[name].budget_tokens


@pytest.mark.parametrize("said", [PROSE, GOOD], ids=["no JSON", "a plan that is refused"])
@pytest.mark.parametrize(("granted", "n_asked"), [(2, 1), (3, 2)])
def test_no_answer_is_asked_for_that_nobody_could_be_paid_to_carry_out(
    said: str, granted: int, n_asked: int, situation: Situation, skills: dict[str, Skill]
) -> None:
    def refuse(value: Any) -> Judged[Any]:
        return Judged(CallOutcome.INVALID_OUTPUT, detail="tried already")

    with BadServer(says(said)) as server:
        meter = Meter(Budget(model_calls=granted), lambda: 0.0)
        client = ModelClient(settings_for(server), meter, MemoryTape(), sleep=no_sleep)
        asker = Asker(client, "planner", skills, followers=1)
        with pytest.raises(UnusableAnswer):
            told = PromptInput(situation, skills)
            asker.structured("planner", told, ProposedMove, refuse, **FACTS["planner"])
        assert len(server.requests) == n_asked


@pytest.mark.parametrize("context", [None, 12_000, 5_000])
def test_corrections_keep_to_the_budget_too(
    context: int | None, situation: Situation, skills: dict[str, Skill]
) -> None:
    with BadServer(says(PROSE), says(WRONG), says(GOOD)) as server:
        settings = settings_for(server, context_tokens=context, max_output_tokens=1_000)
        client = ModelClient(settings, Meter(Budget(), lambda: 0.0), MemoryTape(), sleep=no_sleep)
        asker = Asker(client, "planner", skills, settings.prompt_tokens())
        asker.structured(
            "planner", crowded(PromptInput(situation, skills)), ProposedMove, taken, **FACTS["planner"]
        )
        requests = server.requests
    assert len(requests) == 3
    room = min(settings.prompt_tokens() or 10**9, WINDOWS["planner"].budget_tokens)
    assert all(0.5 * room < sent_tokens(request) <= room for request in requests)
    roles = [message["role"] for message in requests[2].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"], "the older answer made room"
    answer, complaint = (message["content"] for message in requests[2].body["messages"][2:])
    assert answer.startswith('{"skill": 1') and "cut" in answer
    assert "skill: Input should be a valid string" in complaint


def test_corrections_of_a_tool_call_keep_to_the_budget_too(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    wrong, good = calls_tool(json.loads(WRONG)), calls_tool(json.loads(GOOD))
    with BadServer(wrong, wrong, good) as server:
        settings = settings_for(server, context_tokens=6_000, max_output_tokens=1_000, output_mode="tool")
        client = ModelClient(settings, Meter(Budget(), lambda: 0.0), MemoryTape(), sleep=no_sleep)
        asker = Asker(client, "planner", skills, settings.prompt_tokens())
        asker.structured(
            "planner", crowded(PromptInput(situation, skills)), ProposedMove, taken, **FACTS["planner"]
        )
        assert len(server.requests) == 3
        assert max(map(sent_tokens, server.requests)) <= 5_000


def test_a_short_answer_is_corrected_in_full(situation: Situation, skills: dict[str, Skill]) -> None:
    with BadServer(says("No."), says("Never."), says(GOOD)) as server:
        client = ModelClient(settings_for(server), Meter(Budget(), lambda: 0.0), MemoryTape())
        asker = Asker(client, "planner", skills)
        asker.structured("planner", PromptInput(situation, skills), ProposedMove, taken, **FACTS["planner"])
        said = [message["content"] for message in server.requests[2].body["messages"]]
    assert len(said) == 6 and said[2] == "No." and said[4] == "Never."


def test_a_context_that_holds_no_prompt_is_refused_before_anything_starts() -> None:
    least = max(least_prompt(name) for name in ("planner", "planner_anchors"))
    settings = ModelSettings(model="openai:m", context_tokens=least + 999, max_output_tokens=1_000)
    said = f"leaves {least - 1} tokens .* the planner's needs at least {least}: "
    with pytest.raises(UserError, match=said):
        require_room(settings, {"planner"})
    require_room(settings.model_copy(update={"context_tokens": least + 1_000}), {"planner"})
    require_room(settings, {"selector"})
    require_room(settings.model_copy(update={"context_tokens": None}), {"planner"})


@pytest.mark.parametrize("language", ["triton", "cuda"])
def test_room_is_that_of_the_language_s_own_rules(language: str) -> None:
    target = TargetName(device="cuda", language=language)
    names = [name for name in WINDOWS if name.startswith("coder")]
    least = max(least_prompt(name, target) for name in names)
    assert least != max(map(least_prompt, names))
    settings = ModelSettings(model="openai:m", context_tokens=least + 999, max_output_tokens=1_000)
    with pytest.raises(UserError, match=f"the coder's needs at least {least}: "):
        require_room(settings, {"coder"}, target)
    require_room(settings.model_copy(update={"context_tokens": least + 1_000}), {"coder"}, target)

"""Requests to models by section, from what a run recorded of them."""

from lab.sample_run import make_store
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from kernelwright.agents.llm.recorded import canonical
from kernelwright.core.model_call import CallOutcome, ModelCall
from kernelwright.core.models import ModelSettings
from kernelwright.report.html import render_page
from kernelwright.report.prompt_sections import OTHER, RULES, SCHEMAS, prompt_tables, split
from kernelwright.report.story import tell

USER = "Hello\n## The base, 0123abcd\n```python\n## no title\n```\n## The question\nFaster!\n"


def call(role: str = "planner", user: str = USER, *, has_tools: bool = False, **more: object) -> ModelCall:
    ask = ModelRequest(parts=[UserPromptPart(content=user)], instructions="Rules.")
    tool = ToolDefinition(name="read_skill", parameters_json_schema={"type": "object"})
    parameters = ModelRequestParameters(function_tools=[tool] if has_tools else [])
    request = canonical(role, "m", [ask, ask] if has_tools else [ask], None, parameters)
    told = {"key": "k", "role": role, "model": "openai:m", "request": request, "response": "[]",
            "outcome": CallOutcome.OK, "input_tokens": 1000, "output_tokens": 7}  # fmt: skip
    return ModelCall.model_validate({**told, **more})


def test_a_message_is_split_at_titles_and_not_in_code() -> None:
    assert [title for title, _ in split(USER)] == [OTHER, "The base", "The question"]
    assert "".join(part for _, part in split(USER)) == USER


def test_tokens_are_the_servers_shared_by_bytes() -> None:
    tables = prompt_tables([call(), call("coder", "## The question\nFaster!\n")])
    first = dict(tables.calls[0].sections)
    assert list(first) == [RULES, OTHER, "The base", "The question"]
    assert abs(sum(first.values()) - 1000) <= 2
    assert tables.roles == ("planner", "coder")
    of_base = next(row for row in tables.sections if row.title == "The base")
    assert of_base.per_role == (first["The base"], None)
    assert abs(sum(row.share for row in tables.sections) - 1) < 1e-9


def test_rules_count_once_and_what_is_sent_beside_messages_counts() -> None:
    (plain,), (row,) = prompt_tables([call()]).calls, prompt_tables([call(has_tools=True)]).calls
    told, with_tools = dict(plain.sections), dict(row.sections)
    assert list(with_tools) == [*told, SCHEMAS]
    assert abs(with_tools[RULES] / with_tools["The base"] - told[RULES] / told["The base"]) < 0.1


def test_tools_and_requests_that_were_not_kept_have_no_sections() -> None:
    tables = prompt_tables([call(tool="read_skill"), call(request="")])
    assert [row.sections for row in tables.calls] == [(), ()] and tables.sections == ()
    assert [row.tool for row in tables.calls] == ["read_skill", None]


def test_the_report_shows_sections_roles_and_what_became_of_answers() -> None:
    refused = call(judged=CallOutcome.INVALID_OUTPUT, judged_detail="no <plan>")
    store = make_store()
    spec = store.record.spec.model_copy(update={"models": ModelSettings(model="openai:m")})
    record = store.record.model_copy(update={"spec": spec})
    page = render_page(
        record, tell(store.events), list(store.candidates.values()), prompts=prompt_tables([refused])
    )
    section = page[page.index('id="prompts"') :]
    for words in ("<td>The base</td>", '<th class="num">planner</th>', "invalid output", "no &lt;plan&gt;"):
        assert words in section, words
    assert 'id="prompts"' not in render_page(record, tell(store.events), list(store.candidates.values()))

"""What the server offers, asked in process by the official client."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from lab.sample_run import make_store

from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Status
from kernelwright.core.run import RunState
from kernelwright.mcp.asked import CHECK, EVALUATE, LOWER, OPTIMIZE, SPACE, TUNE, kernel_of, place_of
from kernelwright.mcp.resources import guide_folder
from kernelwright.mcp.server import make_server
from kernelwright.settings import Settings
from kernelwright.store.sqlstore import open_store
from mcp import Client, MCPError

TOOLS = {
    "check_task", "evaluate", "compare_kernels", "diagnose", "inspect", "lower_plan", "optimize",
    "memory_recall", "skills_search", "skill_read", "space", "tune",
}  # fmt: skip


def ask(folder: Path, question: Callable[[Client], Awaitable[Any]], store: str = "sqlite://") -> Any:
    """Ask a server in this process."""

    async def call() -> Any:
        async with Client(make_server(Settings(folder, folder, store))) as client:
            try:
                return await question(client)
            except MCPError as error:  # not from within the client's own group of tasks
                return error

    answer = anyio.run(call)
    if isinstance(answer, MCPError):
        raise answer
    return answer


def test_every_tool_has_schemas_and_words(tmp_path: Path) -> None:
    tools = ask(tmp_path, lambda client: client.list_tools()).tools
    assert {tool.name for tool in tools} >= TOOLS
    for tool in tools:
        assert tool.description and tool.output_schema and tool.annotations
        assert tool.output_schema["type"] == "object"


def test_options_are_the_requests_fields_and_hold_no_reference() -> None:
    for accepted in (CHECK, EVALUATE, LOWER, OPTIMIZE, SPACE, TUNE):
        schema = accepted.schema()
        assert set(schema["properties"]) == set(accepted.names)
        assert "$ref" not in json.dumps(schema)
    assert EVALUATE.schema()["properties"]["final"]["description"]


@pytest.mark.parametrize(
    "name", ["store", "output", "report", "record", "evaluator", "models", "require_sandbox"]
)
def test_what_is_the_owners_to_choose_is_no_option(name: str) -> None:
    with pytest.raises(UserError, match=f"there is no '{name}'"):
        OPTIMIZE.fields({name: "x"})


@pytest.mark.parametrize("text", ["/etc/passwd", "model.py", "", "suite", "saved:/tmp/x.json"])
def test_files_are_not_read(text: str) -> None:
    with pytest.raises(UserError, match="source text"):
        place_of(text)
    with pytest.raises(UserError, match="source text"):
        kernel_of(text)
    assert place_of("suite:27_Softmax").title == "27_Softmax"


def test_skills_are_found_and_read(tmp_path: Path) -> None:
    found = ask(tmp_path, lambda c: c.call_tool("skills_search", {"query": "softmax", "limit": 3}))
    names = [skill["name"] for skill in found.structured_content["skills"]]
    assert len(names) == 3 and found.structured_content["total"] >= 3
    page = ask(tmp_path, lambda c: c.call_tool("skill_read", {"name": names[0]}))
    assert page.structured_content["skill"]["name"] == names[0] and page.structured_content["text"]


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("skill_read", {"name": "softmaks"}, "call skills_search"),
        ("skills_search", {"bottleneck": "slow"}, "known: memory_bandwidth"),
        ("skills_search", {"target": "tpu/x"}, "there are skills for"),
        ("skills_search", {"limit": 0}, "limit: Input should be greater than or equal to 1. Next:"),
    ],
)
def test_an_error_says_what_to_do_next(
    tmp_path: Path, tool: str, arguments: dict[str, Any], says: str
) -> None:
    answer = ask(tmp_path, lambda client: client.call_tool(tool, arguments))
    assert answer.is_error and says in answer.content[0].text


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("memory_recall", {}, "Next: this is no fault of your arguments"),
        ("memory_recall", {"target": "tpu/x"}, "Next: correct the argument"),
        ("memory_recall", {"task": "import torch\nx = 1"}, "Next: correct the task"),
    ],
)
def test_what_to_do_next_hangs_on_who_is_at_fault(
    tmp_path: Path, tool: str, arguments: dict[str, Any], says: str
) -> None:
    """The store is broken; the job runs in a process of its own."""
    broken = tmp_path / "broken.db"
    broken.write_text("no store at all\n" * 100)
    answer = ask(tmp_path, lambda client: client.call_tool(tool, arguments), str(broken))
    assert answer.is_error and says in answer.content[0].text


def test_runs_their_kernels_and_reports_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store, made_up = open_store(str(path)), make_store()
    run_id = store.create_run(made_up.record.spec)
    for candidate in made_up.candidates.values():
        store.add_candidate(run_id, candidate)
    for event in made_up.events:
        store.append_event(run_id, event)
    store.set_state(run_id, RunState.FINISHED)
    store.close()

    def read(uri: str) -> str:
        text: str = ask(tmp_path, lambda client: client.read_resource(uri), str(path)).contents[0].text
        return text

    assert [run["run_id"] for run in json.loads(read("kernelwright://runs"))] == [run_id]
    assert json.loads(read(f"kernelwright://runs/{run_id}"))["headline"]
    assert "ModelNew" in read(f"kernelwright://runs/{run_id}/kernel")
    assert read(f"kernelwright://runs/{run_id}/report").startswith("<!")
    for uri in ("kernelwright://runs/none", "kernelwright://runs/none/report"):
        with pytest.raises(MCPError, match="read kernelwright://runs"):
            read(uri)
    store = open_store(str(path))
    store.create_run(made_up.record.spec)
    store.close()
    with pytest.raises(MCPError, match="begins several run ids"):
        read(f"kernelwright://runs/{run_id[:3]}/kernel")


def test_pages_and_evidence_can_be_read(tmp_path: Path) -> None:
    def read(uri: str) -> str:
        text: str = ask(tmp_path, lambda client: client.read_resource(uri)).contents[0].text
        return text

    assert {"skill", "plans", "verdicts"} <= set(json.loads(read("kernelwright://docs")))
    assert "check_task" in read("kernelwright://docs/skill")
    assert "floor" in json.loads(read("kernelwright://evidence"))["run.floor_fraction"]
    with pytest.raises(MCPError, match="no page"):
        read("kernelwright://docs/nowhere")


def test_prompts_hold_what_they_are_given(tmp_path: Path) -> None:
    prompts = ask(tmp_path, lambda client: client.list_prompts()).prompts
    assert {prompt.name for prompt in prompts} == {
        "make_faster", "search_for_me", "why_rejected", "review_task",
    }  # fmt: skip
    made = ask(tmp_path, lambda c: c.get_prompt("make_faster", {"task": "class Model: ...", "budget": "7"}))
    assert "class Model: ..." in made.messages[0].content.text and "7 eval" in made.messages[0].content.text


def test_the_skill_for_agents_names_tools_and_verdicts_that_exist() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(guide_folder().rglob("*.md")))
    assert [
        name for name in TOOLS if f"`{name}" not in text and name not in ("inspect", "memory_recall")
    ] == []
    assert [status for status in Status if f"`{status}`" not in text] == []
    assert text.startswith("---\nname: kernelwright\ndescription: ")

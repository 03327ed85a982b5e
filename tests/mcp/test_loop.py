"""A scripted agent improves a kernel through the server: the loop of the skill, with real verdicts."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from mcp.client.stdio import StdioServerParameters
from tests.cli.test_memory import add_outcomes
from tests.mcp.test_transports import COMMAND, environment

from kernelwright.store.sqlstore import open_store
from mcp import Client

T = TypeVar("T")

pytestmark = pytest.mark.slow
TASK = """
import torch
from torch import nn

size = 768


class Model(nn.Module):
    def forward(self, scale, x):
        return torch.diag(scale) @ x


def get_inputs():
    return [torch.randn(size), torch.randn(size, size)]


def get_init_inputs():
    return []
"""
FIRST = TASK.replace("class Model(", "class ModelNew(")
OPEN = FIRST.replace("size = 768", "size = 768\nTUNE = {'WAY': [0, 1]}").replace(
    "return torch.diag(scale) @ x",
    "return scale[:, None] * x if TUNE['WAY'][0] else torch.diag(scale) @ x",
)
BARE = "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }"
FOR_GPUS = f"from torch.utils.cpp_extension import load_inline\nm = load_inline('m', '', {BARE!r})\n"
WRONG = FIRST.replace("@ x", "@ x.abs()")


class Agent:
    """Calls tools and remembers what they answered."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.said: list[str] = []

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        async def watch(progress: float, total: float | None, message: str | None) -> None:
            self.said.append(message or "")

        answer = await self._client.call_tool(tool, arguments, progress_callback=watch)
        assert not answer.is_error, answer
        assert answer.structured_content is not None
        return answer.structured_content


async def improve(agent: Agent) -> list[dict[str, Any]]:
    """Carry the loop out and return the verdicts."""
    checked = await agent.call("check_task", task=TASK)
    assert checked["trustworthy"], checked
    wrong = await agent.call("evaluate", task=TASK, kernel=WRONG)
    assert (wrong["verified"], wrong["check"]) == (False, "oracle") and "wrong" in wrong["next"]
    first = await agent.call("diagnose", task=TASK, kernel=FIRST)
    assert first["verdict"]["verified"] and first["bottleneck"] == "redundant_work" and first["roofline"]
    page = await agent.call("skill_read", name=first["skills"][0]["skill"])
    assert page["text"] and page["skill"]["carried_out_by_expert"]
    start = await agent.call("lower_plan", task=TASK)
    best = start["moves"][0]
    assert best["skill"] == page["skill"]["name"]
    move = {"skill": best["skill"], "region": best["region"]}
    better = await agent.call("lower_plan", task=TASK, moves=[move])
    kernels = {"first": FIRST, "better": better["source"]}
    table = await agent.call("compare_kernels", task=TASK, kernels=kernels)
    assert table["best"] == "better"
    return [row["verdict"] for row in table["kernels"]]


async def look_round(agent: Agent) -> dict[str, dict[str, Any]]:
    """Call what plans, builds and remembers, and return the answers by tool."""
    return {
        "space": await agent.call("space", task=TASK, options={"sample": 2}),
        "tune": await agent.call("tune", task=TASK, kernel=OPEN, options={"seconds": 10}),
        "memory_recall": await agent.call("memory_recall", task=TASK, skill="tile-columns"),
        "inspect": await agent.call("inspect", kernel=FOR_GPUS, gpus=["sm_90"]),
    }


def talk(folder: Path, say: Callable[[Agent], Awaitable[T]]) -> tuple[T, list[str]]:
    """Let an agent talk to a server of its own; return what it came to, and the progress it was told."""

    async def meet() -> tuple[T, list[str]]:
        parameters = StdioServerParameters(command=sys.executable, args=COMMAND, env=environment(folder))
        async with Client(parameters) as client:
            agent = Agent(client)
            return await say(agent), agent.said

    return anyio.run(meet)


def test_what_plans_builds_and_remembers_answers_an_agent(tmp_path: Path) -> None:
    pytest.importorskip("nvidia.cu13", reason="builds for GPUs need nvidia-cuda-nvrtc")
    store = open_store(tmp_path / "runs.db")
    add_outcomes(store, 0, 3)
    store.close()
    found, _ = talk(tmp_path, look_round)
    assert found["space"]["decisions"] and len(found["space"]["points"]) == 2
    assert found["tune"]["points"] == 2 and found["tune"]["verdict"]["verified"]
    assert found["memory_recall"]["effects"][0]["tries"] == 3
    (report,) = found["inspect"]["gpus"]
    assert report["can_run"] and [kernel["kernel"] for kernel in report["kernels"]] == ["twice"]


def test_a_scripted_agent_improves_a_kernel(tmp_path: Path) -> None:
    (first, better), said = talk(tmp_path, improve)
    assert first["verified"] and better["verified"]
    assert better["speedup"] > first["speedup"]  # a matrix product less: no load turns that round
    assert "judging better, 2 of 2" in said

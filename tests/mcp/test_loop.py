"""A scripted agent improves a kernel through the server: the loop of the skill, with real verdicts."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.stdio import StdioServerParameters
from tests.mcp.test_transports import COMMAND, environment

from mcp import Client

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


def test_a_scripted_agent_improves_a_kernel(tmp_path: Path) -> None:
    said: list[str] = []

    async def talk() -> list[dict[str, Any]]:
        parameters = StdioServerParameters(command=sys.executable, args=COMMAND, env=environment(tmp_path))
        async with Client(parameters) as client:
            agent = Agent(client)
            verdicts = await improve(agent)
            said.extend(agent.said)
            return verdicts

    first, better = anyio.run(talk)
    assert first["verified"] and better["verified"]
    assert better["speedup"] > first["speedup"]  # a matrix product less: no load turns that round
    assert "judging better, 2 of 2" in said

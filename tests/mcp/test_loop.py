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

rows, width = 512, 512


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x):
        y = torch.tanh(x + self.bias) * 0.5 + x * 0.25
        return torch.softmax(y * y + y, dim=-1)


def get_inputs():
    return [torch.randn(rows, width)]


def get_init_inputs():
    return [width]
"""
FIRST = TASK.replace("class Model(", "class ModelNew(")
WRONG = FIRST.replace("* 0.25", "* 0.26")


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
    found = await agent.call("diagnose", task=TASK, kernel=FIRST)
    assert found["verdict"]["verified"] and found["bottleneck"] and found["roofline"]
    names = [skill["skill"] for skill in found["skills"]]
    assert (await agent.call("skill_read", name=names[0]))["text"]
    fused = await agent.call("lower_plan", task=TASK, moves=[])
    assert {"cache-rows", "keep-call"} <= {move["skill"] for move in fused["moves"]}
    kernels = {"first": FIRST, "fused": fused["source"]}
    table = await agent.call("compare_kernels", task=TASK, kernels=kernels)
    assert table["best"] == "fused"
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

    first, fused = anyio.run(talk)
    assert first["verified"] and fused["verified"]
    assert fused["speedup"] > first["speedup"]
    assert "judging fused, 2 of 2" in said

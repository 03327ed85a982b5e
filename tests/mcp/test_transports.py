"""The command as it is started, asked by the official client over stdio and over HTTP."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.cli.conftest import TASK

from mcp import Client

TOKEN = "a-token-for-tests-only"
COMMAND = ["-m", "kernelwright", "mcp"]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return what a server started for a test sees; runs compare with eager alone."""
    own = {"STORE": str(folder / "runs.db"), "DATA": str(folder), "BASELINE": "eager"}
    return {**os.environ, **{f"KERNELWRIGHT_{name}": value for name, value in own.items()}, **more}


@contextmanager
def served(folder: Path, *words: str, **more: str) -> Iterator[str]:
    """Start the server over HTTP and yield its address."""
    process = subprocess.Popen(
        [sys.executable, *COMMAND, "--http", "--port", "0", "--json", *words],
        env=environment(folder, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        text = ""
        while "}" not in text:
            text += process.stdout.readline() or pytest.fail("the server did not start")
        yield json.loads(text)["serving"]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        process.stdout.close()


def test_over_stdio(tmp_path: Path) -> None:
    async def talk() -> tuple[Any, Any]:
        parameters = StdioServerParameters(command=sys.executable, args=COMMAND, env=environment(tmp_path))
        async with Client(parameters) as client:
            tools = await client.list_tools()
            refused = await client.call_tool("evaluate", {"task": "model.py", "kernel": "kernel.py"})
            return tools, refused

    tools, refused = anyio.run(talk)
    assert "evaluate" in {tool.name for tool in tools.tools}
    assert refused.is_error and "read the file and pass its content" in refused.content[0].text


def test_over_http_with_the_token(tmp_path: Path) -> None:
    async def talk(url: str) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return await client.call_tool("skills_search", {"query": "softmax", "limit": 1})

    with served(tmp_path, KERNELWRIGHT_MCP_TOKEN=TOKEN) as url:
        assert len(anyio.run(talk, url).structured_content["skills"]) == 1
        with httpx2.Client() as http:
            assert http.post(url, json={}).status_code == 401
            assert http.post(url, json={}, headers={"Authorization": "Bearer wrong"}).status_code == 403


@pytest.mark.slow
def test_a_cancelled_search_leaves_a_run_that_can_be_carried_on(tmp_path: Path) -> None:
    async def talk() -> tuple[str, Any]:
        parameters = StdioServerParameters(command=sys.executable, args=COMMAND, env=environment(tmp_path))
        async with Client(parameters) as client:
            with anyio.CancelScope() as scope:

                async def watch(progress: float, total: float | None, message: str | None) -> None:
                    if "capturing" in (message or ""):
                        scope.cancel()

                budget = {"budget": {"evaluations": 2}}
                await client.call_tool("optimize", {"task": TASK, "options": budget}, progress_callback=watch)
            assert scope.cancelled_caught
            runs = await client.read_resource("kernelwright://runs")
            (run,) = json.loads(runs.contents[0].text)
            ended = await client.call_tool("optimize", {"resume": run["run_id"]})
            return run["run_id"], ended

    run_id, ended = anyio.run(talk)
    assert not ended.is_error, ended
    assert ended.structured_content["run_id"] == run_id


def test_pages_from_elsewhere_and_other_names_are_refused_over_http(tmp_path: Path) -> None:
    token = {"Authorization": f"Bearer {TOKEN}"}
    with served(tmp_path, KERNELWRIGHT_MCP_TOKEN=TOKEN) as url, httpx2.Client() as http:
        assert url.endswith("/mcp")
        assert http.post(url, json={}, headers={**token, "Origin": "https://example.org"}).status_code == 403
        assert http.post(url, json={}, headers={**token, "Host": "example.org"}).status_code == 421
        own = url.removesuffix("/mcp")
        assert http.post(url, json={}, headers={**token, "Origin": own}).status_code not in (401, 403, 421)


def test_the_skill_for_agents_is_copied(tmp_path: Path) -> None:
    command = [sys.executable, *COMMAND, "--install-skill", str(tmp_path / "skills")]
    subprocess.run(command, env=environment(tmp_path), check=True, capture_output=True)
    assert "evaluate" in (tmp_path / "skills" / "kernelwright" / "SKILL.md").read_text()

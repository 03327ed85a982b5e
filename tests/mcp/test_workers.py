"""Jobs in processes of their own: progress, faults, cancellation, and what a job may see."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from kernelwright.core.errors import MachineError, TaskError, UserError
from kernelwright.mcp.answers import FoundSkills
from kernelwright.mcp.workers import NO_STORE, Workers
from kernelwright.settings import Settings

STUB = """
import json, os, signal, sys, time
job = json.loads(sys.stdin.readline())
def write(document):
    print(json.dumps(document), flush=True)
def refuse(kind, line):
    write({{"problem": {{"kind": kind, "line": line}}}})
{}
"""
"""Stands in for the process of a job."""
ANSWER = 'write({"answer": {"skills": [], "total": 3}})'


def workers(folder: Path, body: str) -> Workers:
    settings = Settings(folder, folder, "postgresql://someone:secret@db/runs")
    return Workers(settings, (sys.executable, "-c", STUB.format(body)))


def run(team: Workers, job: str = "check_task", **arguments: Any) -> tuple[FoundSkills, list[str]]:
    told: list[str] = []

    async def tell(seconds: float, text: str) -> None:
        told.append(text)

    async def call() -> FoundSkills:
        return await team.run(job, arguments, FoundSkills, tell)

    return anyio.run(call), told


def test_a_job_tells_how_far_it_is_and_answers(tmp_path: Path) -> None:
    answer, told = run(workers(tmp_path, f'write({{"say": "half way"}}); time.sleep(0.2); {ANSWER}'))
    assert answer.total == 3
    assert told[0] == "starting" and "half way" in told


@pytest.mark.parametrize(
    ("body", "error", "says"),
    [
        ('refuse("user", "no such thing")', UserError, "no such thing"),
        ('refuse("task", "not deterministic")', TaskError, "not deterministic"),
        ('refuse("machine", "broken")', MachineError, "broken"),
        ("os._exit(3)", MachineError, "ended with 3 and no answer"),
        ("os.kill(os.getpid(), signal.SIGKILL)", MachineError, "ended with -9"),
    ],
)
def test_what_a_job_refuses_and_what_breaks_are_told_apart(
    tmp_path: Path, body: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        run(workers(tmp_path, body))


def test_a_job_sees_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_API_KEY", "hidden")
    monkeypatch.setenv("OPENAI_API_KEY", "hidden")
    body = 'refuse("user", json.dumps([dict(os.environ), job["settings"]]))'
    with pytest.raises(UserError) as caught:
        run(workers(tmp_path, body))
    environment, settings = json.loads(str(caught.value))
    store = settings["store"]
    assert settings["confine_tasks"], "a task from an agent is somebody else's"
    assert "hidden" not in environment.values() and store == NO_STORE
    assert "PATH" in environment


def test_a_job_that_asks_a_model_has_the_keys_and_one_about_runs_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "wanted")
    body = 'refuse("user", os.environ["OPENAI_API_KEY"] + job["settings"]["store"])'
    with pytest.raises(UserError, match="wantedpostgresql"):
        run(workers(tmp_path, body), "optimize", options={"team": "llm"})


def test_a_cancelled_call_interrupts_its_process(tmp_path: Path) -> None:
    mark = tmp_path / "interrupted"
    body = f"""
try:
    write({{"say": str(os.getpid())}}); time.sleep(60)
except KeyboardInterrupt:
    open({str(mark)!r}, "w").close()
"""
    pids: list[str] = []

    async def call() -> None:
        with anyio.CancelScope() as scope:

            async def tell(seconds: float, text: str) -> None:
                if text.isdigit():
                    pids.append(text)
                    scope.cancel()

            await workers(tmp_path, body).run("check_task", {}, FoundSkills, tell)
        assert scope.cancelled_caught

    anyio.run(call)
    assert mark.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids[0]), 0)


def test_jobs_are_carried_out_one_at_a_time(tmp_path: Path) -> None:
    body = f"""
path = {str(tmp_path / "at_work")!r}
fd = os.open(path, os.O_CREAT | os.O_EXCL)  # fails where another one is at work
time.sleep(0.1); os.unlink(path)
{ANSWER}
"""
    team = workers(tmp_path, body)
    told: list[str] = []

    async def tell(seconds: float, text: str) -> None:
        told.append(text)

    async def call() -> None:
        async with anyio.create_task_group() as several:
            for _ in range(3):
                several.start_soon(team.run, "check_task", {}, FoundSkills, tell)

    anyio.run(call)
    assert "waiting for another call to end" in told


def test_calls_beyond_the_queue_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.mcp.workers.MAX_WAITING", -1)
    with pytest.raises(MachineError, match="call again"):
        run(workers(tmp_path, ANSWER))

"""kill -9 of the real program in the middle of a real run: nothing finished is lost or repeated."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from kernelwright.core.events import CandidateEvaluated
from kernelwright.core.run import RunState
from kernelwright.store.sqlstore import open_store

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * torch.sigmoid(x)

def get_inputs():
    return [torch.randn(256, 1024)]

def get_init_inputs():
    return []
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kernelwright", *arguments]


def evaluations(store_path: Path) -> list[str] | None:
    """Candidates evaluated so far, in order; None while there is no run yet."""
    if not store_path.exists():
        return None
    store = open_store(store_path)
    try:
        runs = list(store.iter_runs())
        events = [s.event for run in runs for s in store.iter_events(run.run_id)]
    finally:
        store.close()
    done = [f"{e.candidate} {e.evaluation.is_final}" for e in events if isinstance(e, CandidateEvaluated)]
    return done if runs else None


@pytest.mark.slow
@pytest.mark.parametrize("after_evaluations", [0, 2])
def test_a_killed_run_is_carried_on(tmp_path: Path, after_evaluations: int) -> None:
    (tmp_path / "task.py").write_text(TASK, encoding="utf-8")
    store_path = tmp_path / "runs.db"
    environment = {
        **os.environ,
        "KERNELWRIGHT_STORE": str(store_path),
        "KERNELWRIGHT_CACHE": str(tmp_path / "cache"),
    }
    running = subprocess.Popen(
        command("optimize", "task.py", "--budget-evaluations", "4"),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and running.poll() is None:
        done_so_far = evaluations(store_path)
        if done_so_far is not None and len(done_so_far) >= after_evaluations:
            break
        time.sleep(0.05)
    time.sleep(0.3)  # somewhere inside the next thing it does
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    before = evaluations(store_path) or []
    store = open_store(store_path)
    run_id = next(store.iter_runs()).run_id
    done = subprocess.run(
        command("runs", "resume", run_id, "--json"),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run_id"] == run_id
    after = evaluations(store_path) or []
    assert after[: len(before)] == before
    assert after and set(Counter(after).values()) == {1}
    assert store.get_run(run_id).state is RunState.FINISHED

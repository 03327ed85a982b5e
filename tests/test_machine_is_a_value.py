"""What is written depends on the machine that a run is for, never on the process that writes it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lab.servers.playing_model import ScriptedReferee

from kernelwright import api
from kernelwright.core.budget import Budget
from kernelwright.core.machine import Machine
from kernelwright.core.run import RunSpec
from kernelwright.settings import Settings
from kernelwright.store.sqlstore import open_store
from kernelwright.tasks.suite import suite_tasks
from kernelwright.testing.fake_run import PEAKS

TASK = next(task for task in suite_tasks() if task.name == "17_FrobeniusScale")
"""Its kernels differ from two cores to one: a sum over everything has to be shared."""
ON_ONE_CORE = ["taskset", "-c", "0"]
needs_more_cores = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2 or not shutil.which("taskset"),
    reason="needs a second core, and taskset",
)
SEEDS = """
import json, sys
from kernelwright.agents.roles import Situation
from kernelwright.agents.teams import find_team
from kernelwright.core.machine import Machine
from kernelwright.core.run import RunSpec
from kernelwright.runs.prepare import prepare_on
from kernelwright.tasks.suite import suite_tasks
from kernelwright.testing.fake_run import PEAKS

(task,) = (task for task in suite_tasks() if task.name == "17_FrobeniusScale")
found = {}
for cores in (1, 2, 64):
    machine = Machine(cores=cores, vector_bytes=64, peaks=PEAKS)
    problem, _ = prepare_on(RunSpec(task=task, recipe="kernelskill"), machine)
    found[cores] = [c.id for c in find_team("expert").generator.seeds(Situation(problem), 3)]
print(json.dumps(found))
"""


def speed(source: str) -> float:
    """Return a made-up speedup that differs from kernel to kernel."""
    return 1.5 + len(source) % 97 / 100


@pytest.mark.slow
@needs_more_cores
def test_a_run_recorded_on_two_cores_replays_on_one(tmp_path: Path) -> None:
    """A scripted referee measures; graphs, plans, kernels and the replay are the real thing."""
    settings = Settings(store=str(tmp_path / "runs.db"), cache_dir=tmp_path, data_dir=tmp_path)
    store = open_store(settings.store)
    spec = RunSpec(
        task=TASK,
        recipe="kernelskill",
        budget=Budget(evaluations=3),
        machine=Machine(cores=2, vector_bytes=64, peaks=PEAKS),
        is_cold=True,
    )
    outcome = api.play(spec, store=store, settings=settings, referee=ScriptedReferee(speed))
    api.record_run(outcome.run_id, tmp_path / "recorded", store=store, settings=settings)
    command = [sys.executable, "-m", "kernelwright", "runs", "replay", str(tmp_path / "recorded"), "--json"]
    done = subprocess.run([*ON_ONE_CORE, *command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    replayed = json.loads(done.stdout)
    assert replayed["verified"] and replayed["spent"]["evaluations"] == outcome.spent.evaluations


@pytest.mark.slow
@needs_more_cores
def test_candidates_are_the_same_whatever_cores_the_process_has() -> None:
    words = [sys.executable, "-c", SEEDS]
    plain, bound = (
        json.loads(subprocess.run([*before, *words], capture_output=True, check=True).stdout)
        for before in ([], ON_ONE_CORE)
    )
    assert plain == bound
    assert plain["1"] != plain["2"]

"""Nodes of a real Ray cluster on this machine, commands on it, and what a store has of them afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.fleet import FleetScript, notes_in

from kernelwright.core.events import CandidateEvaluated
from kernelwright.core.run import RunState
from kernelwright.remote.fleet.farm import BUILDS
from kernelwright.store.sqlstore import open_store

ROOT = Path(__file__).parents[1]
PATHS = (os.environ.get("PYTHONPATH", ""),)
STORE_BYTES = 80_000_000
DRIVER = """
import sys
from dataclasses import replace
from lab.fleet import PATIENCE, FleetScript, order_for
from kernelwright.api import benching, comparing, playing, workers
from kernelwright.cli.main import run
from kernelwright.remote.fleet.fleet import Fleet
from kernelwright.remote.fleet.ray_cluster import RayCluster
from kernelwright.runs.loop import Crew
from kernelwright.testing.fake_run import ScriptedTeam, fake_prepare

address, script, *words = sys.argv[1:]
tools, carry_on = playing._tools, playing.carry_on
team = ScriptedTeam(["a"], ["x", "y"]).team()
playing._tools = lambda *given: replace(tools(*given), assemble=lambda meter, tape: Crew(team))
playing.carry_on = lambda run_id, **how: carry_on(run_id, **{**how, "prepare": fake_prepare})
order = order_for(FleetScript.model_validate_json(script))
for module in (benching, comparing, workers):
    module.open_fleet = lambda *given, **how: Fleet(
        RayCluster(address, "cpu", is_apart=True), order, "the Ray cluster", PATIENCE
    )
sys.exit(run(words))
"""
"""A command with the real engine on the real cluster; the team and what workers judge with are stubs."""


def add_node(cluster: Any, n_devices: int = 1, n_cores: int = 0, n_builds: int = 0, **more: str) -> Any:
    """Add a node with devices and cores that are nothing but numbers; ``n_builds``: it is a build node."""
    paths = (more.pop("PYTHONPATH", ""), str(ROOT), *PATHS)
    return cluster.add_node(
        num_cpus=n_cores,
        num_gpus=n_devices,
        resources={BUILDS: n_builds} if n_builds else {},
        object_store_memory=STORE_BYTES,
        env_vars={**more, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )


def held(folder: Path) -> tuple[Path, Path]:
    """Return a file while which exists no evaluation ends, and a folder for notes."""
    hold, notes = folder / "hold", folder / "notes"
    hold.touch()
    notes.mkdir()
    return hold, notes


def ended(folder: Path) -> list[tuple[object, ...]]:
    """Return what was judged to its end: task, source, final."""
    return sorted((n["task"], n["source"], n["final"]) for n in notes_in(folder) if n["what"] == "ended")


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for something; fail where it does not come."""
    until = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.05)


@contextmanager
def command(
    cluster: Any, folder: Path, script: FleetScript, *words: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Have a command work in a folder during the block; after it, it has ended well or was killed in it."""
    places = {f"KERNELWRIGHT_{name}": str(folder / name.lower()) for name in ("CACHE", "DATA")}
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), *PATHS)))}
    said = folder / "said"
    with said.open("w") as file:
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, cluster.address, script.model_dump_json(), *words],
            cwd=folder,
            env={**os.environ, **places, **paths, "KERNELWRIGHT_STORE": str(folder / "runs.db")},
            stdout=file,
            stderr=file,
        )
    try:
        yield driver
        assert driver.wait() in (0, -signal.SIGKILL), said.read_text(encoding="utf-8")
    finally:
        driver.kill()
        driver.wait()


def records(store: Path, title: str | None = None) -> dict[Any, list[Any]]:
    """What a store has of an experiment, without what differs from one time to the next."""
    opened = open_store(store)
    return {
        (run.spec.task.name, run.spec.recipe, run.spec.seed, run.state): [
            _plain(json.loads(stored.event.model_dump_json())) for stored in opened.iter_events(run.run_id)
        ]
        for run in opened.iter_runs(title)
    }


def _plain(value: Any) -> Any:
    left_out = ("seconds", "device", "at", "time")
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if name not in left_out}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def devices(store: Path, title: str | None = None) -> dict[str, set[str | None]]:
    """Return task -> the devices that judged it. All runs have ended and judged nothing twice."""
    opened, found = open_store(store), dict[str, set[str | None]]()
    for run in opened.iter_runs(title):
        events = [stored.event for stored in opened.iter_events(run.run_id)]
        judged = [e.evaluation for e in events if isinstance(e, CandidateEvaluated)]
        keys = [(one.candidate_id, one.is_final) for one in judged]
        assert run.state is RunState.FINISHED and len(keys) == len(set(keys)) > 0
        found.setdefault(run.spec.task.name, set()).update(one.device for one in judged)
    return found

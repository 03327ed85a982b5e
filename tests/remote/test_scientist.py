"""GPU Kernel Scientist over an external evaluator: a service over HTTP, and a platform that answers files.

Service, folder, engine and the expert team are real; the verdicts are made up.
"""

import json
from pathlib import Path

import pytest
from lab.servers.playing_model import TASK, ScriptedReferee
from tests.remote.conftest import TOKEN, serving

from kernelwright import api
from kernelwright.core.budget import Budget
from kernelwright.core.machine import Machine
from kernelwright.core.run import RunSpec
from kernelwright.remote.client import RemoteEvaluator
from kernelwright.remote.filedrop import FileDropEvaluator
from kernelwright.remote.service import make_app
from kernelwright.runs.evaluator import Evaluator
from kernelwright.runs.loop import RunOutcome
from kernelwright.runs.prepare import prepare_on
from kernelwright.settings import Settings
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import PEAKS

MACHINE = Machine(cores=2, vector_bytes=32, peaks=PEAKS)
N_EVALUATIONS = 4


def speed(source: str) -> float:
    """Return a made-up speedup that differs from kernel to kernel."""
    return 1.5 + len(source) % 97 / 100


def play(evaluator: Evaluator, folder: Path) -> tuple[RunOutcome, Store]:
    """Play the scientist with the expert team and a small budget."""
    store = open_store(folder / "runs.db")
    spec = RunSpec(
        task=TASK, recipe="scientist", budget=Budget(evaluations=N_EVALUATIONS), baselines=("eager",)
    )
    outcome = api.play(
        spec,
        store=store,
        settings=Settings(store=str(folder / "runs.db"), cache_dir=folder, data_dir=folder),
        referee=evaluator,
        prepare=lambda spec, cache_dir: prepare_on(spec, MACHINE),
    )
    return outcome, store


def assert_experiments_were_run(outcome: RunOutcome, store: Store) -> None:
    events = [stored.event for stored in store.iter_events(outcome.run_id)]
    modes = [event.mode for event in events if event.kind == "step_started"]
    assert modes[0] == "seed" and "experiment" in modes and modes[-1] == "final"
    assert outcome.spent.evaluations == N_EVALUATIONS
    assert outcome.winner is not None and outcome.evaluation is not None and outcome.evaluation.is_verified


def test_the_scientist_experiments_through_a_service_over_http(tmp_path: Path) -> None:
    referee = ScriptedReferee(speed)
    with serving(make_app(lambda: referee, token=TOKEN)) as url:
        outcome, store = play(RemoteEvaluator(url, TOKEN), tmp_path)
    assert_experiments_were_run(outcome, store)
    judged = [source for source, is_final in referee.asked if not is_final]
    assert len(judged) == len(set(judged)) == N_EVALUATIONS
    assert outcome.winner is not None
    assert speed(outcome.winner.source) == max(map(speed, judged))
    assert referee.asked[-1] == (outcome.winner.source, True)


def test_the_scientist_experiments_through_files_that_a_platform_answers_with_latencies(
    tmp_path: Path,
) -> None:
    drop = tmp_path / "drop"

    def answer(seconds: float) -> None:
        for request in (drop / "outbox").iterdir():
            inbox = drop / "inbox" / f"{request.name}.json"
            if request.name.startswith(".") or inbox.exists():
                continue
            source = (request / "kernel.py").read_text(encoding="utf-8")
            timed = {"latency_ms": {"default": 10.0 / speed(source)}, "baseline_ms": {"default": 10.0}}
            inbox.write_text(json.dumps({"status": "verified", **timed}), encoding="utf-8")

    outcome, store = play(FileDropEvaluator(drop, 30.0, 1.0, margin=1.01, sleep=answer), tmp_path)
    assert_experiments_were_run(outcome, store)
    assert len(list((drop / "outbox").iterdir())) == N_EVALUATIONS + 1, "the winner was measured again"
    assert outcome.winner is not None and outcome.evaluation is not None
    assert outcome.evaluation.geomean_speedup() == pytest.approx(speed(outcome.winner.program))

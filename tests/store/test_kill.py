"""A writer killed at any moment loses nothing that it was told is stored."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.marks import first_quick

from kernelwright.core.events import CandidateEvaluated
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.store_contract import make_candidate, make_spec

WRITER = """
import sys
from kernelwright.core.events import CandidateEvaluated
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.store_contract import make_candidate, make_evaluation
store, run_id = open_store(sys.argv[1]), sys.argv[2]
for n in range(100_000):
    candidate = make_candidate(f"source {sys.argv[3]} {n}" * 200)
    store.add_candidate(run_id, candidate)
    evaluation = make_evaluation(candidate.id).model_copy(update={"log": "x" * 20_000})
    event = CandidateEvaluated(step=n, candidate=candidate.id, evaluation=evaluation)
    seq = store.append_event(run_id, event)
    sys.stdout.write(f"{seq}\\n")
    sys.stdout.flush()
"""


def write_and_kill(path: Path, run_id: str, turn: int, rng: random.Random) -> int:
    """Let a writer work, kill it at a random moment; returns the last number it acknowledged."""
    command = [sys.executable, "-c", WRITER, str(path), run_id, str(turn)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = [writer.stdout.readline() for _ in range(rng.randint(1, 10))]
        time.sleep(rng.uniform(0, 0.01))
        writer.kill()
        acknowledged += writer.stdout.readlines()
    whole = [line for line in acknowledged if line.endswith("\n")]
    return int(whole[-1])


@pytest.mark.parametrize("n_kills", first_quick([3, 12]))
def test_kill_at_random_moments_tears_and_loses_nothing(tmp_path: Path, n_kills: int) -> None:
    path, rng = tmp_path / "s.db", random.Random(0)
    run_id = open_store(path).create_run(make_spec())
    for turn in range(n_kills):
        acknowledged = write_and_kill(path, run_id, turn, rng)
        store = open_store(path)
        stored = list(store.iter_events(run_id))
        assert [item.seq for item in stored] == list(range(1, len(stored) + 1))
        assert acknowledged <= len(stored) <= acknowledged + 1
        written = {candidate.id for candidate in store.iter_candidates(run_id)}
        events = [item.event for item in stored]
        assert {event.candidate for event in events if isinstance(event, CandidateEvaluated)} <= written
        store.close()
    assert make_candidate("never written").id not in written

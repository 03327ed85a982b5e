"""Make the recorded runs that ``test_recordings.py`` replays: ``python -m tests.e2e.record [RECIPE ...]``.

A scripted model (``lab/servers/playing_model.py``) on a local server answers every role; the kernels it
writes are measured by the real referee with quick settings. Measurements that are recorded already are taken
from there, so that after a change of prompts or recipes no machine has to measure; ``--anew`` measures
everything.
"""

import json
import sys
import tempfile
from pathlib import Path

from lab.servers.bad_server import BadServer, answers
from lab.servers.playing_model import TASK, PlayingModel

from kernelwright import api
from kernelwright.core.budget import Budget
from kernelwright.core.machine import Machine
from kernelwright.core.models import ModelSettings
from kernelwright.core.run import RunSpec
from kernelwright.machine.probe import probe_machine
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings
from kernelwright.runs.loop import RunOutcome
from kernelwright.runs.recorded_run import save_run
from kernelwright.runs.recording import (
    RecordedEvaluator,
    RecordedMachine,
    Recording,
    prepare_as_recorded,
    read_recording,
)
from kernelwright.settings import load_settings
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store

FOLDER = Path(__file__).parent / "recordings"
EVALUATIONS = {
    "kernelwright": 6,
    "kernelskill": 8,
    "kernelskill-no-long-term": 6,
    "kernelskill-no-short-term": 6,
    "stark": 7,
    "stark-no-search": 6,
    "stark-no-plan": 6,
    "scientist": 7,
    "cupilot": 9,
    "cupilot-published": 4,
    "fsr": 7,
    "best-of-n": 4,
    "refine": 5,
}
"""Recipe -> evaluations of its recorded run."""
MERGED = ("kernelwright", "fsr", "refine", "best-of-n")
"""Recipes recorded with plan and kernel in one answer; the others ask as the published systems do."""
EXPECTED = "expected.json"
NOWHERE = "http://127.0.0.1:1/v1"
"""Stands in a recording for the address of the server that answered."""
TOLD_OF_MACHINE = ("processor", "cores", "vector_bytes", "caches", "torch", "compiler", "peaks")


def told(store: Store, outcome: RunOutcome) -> dict[str, object]:
    """Return what a replay has to come to as well: candidates, steps and end; seconds are left out."""
    return {
        "candidates": [candidate.id for candidate in store.iter_candidates(outcome.run_id)],
        "events": [stored.event.kind for stored in store.iter_events(outcome.run_id)],
        "winner": outcome.winner.id if outcome.winner else None,
        "speedup": outcome.evaluation.geomean_speedup() if outcome.evaluation else None,
        "reason": outcome.reason,
        "spent": outcome.spent.model_dump(exclude={"seconds"}),
        "answers": dict(outcome.answers),
    }


def record(recipe: str, evaluator: RecordedEvaluator, machine: RecordedMachine) -> dict[str, object]:
    """Play a recipe with the scripted model, write its folder and return how it ended."""
    store, folder = open_store("sqlite://"), FOLDER / recipe
    with BadServer(answers(PlayingModel())) as server:
        spec = RunSpec(
            task=TASK,
            recipe=recipe,
            team="llm",
            models=ModelSettings(
                model="openai:scripted",
                base_url=server.url,
                calls="merged" if recipe in MERGED else "separate",
            ),
            budget=Budget(evaluations=EVALUATIONS[recipe]),
            baselines=("eager",),
            is_cold=True,
        )
        outcome = api.play(spec, store=store, referee=evaluator, prepare=prepare_as_recorded(machine))
        save_run(store, outcome.run_id, folder, machine)
        for file in folder.iterdir():
            text = file.read_text(encoding="utf-8").replace(server.url, NOWHERE)
            file.write_text(text, encoding="utf-8")
    _drop_requests(folder / "calls.jsonl")
    end = told(store, outcome)
    (folder / EXPECTED).write_text(json.dumps(end, indent=1) + "\n", encoding="utf-8")
    return end


def _drop_requests(file: Path) -> None:
    """Leave the prompts out: a replay goes by the order of the calls, and golden tests hold the prompts."""
    calls = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    lines = [json.dumps({**call, "request": "", "seconds": 0.0}) for call in calls]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _known() -> Recording:
    """Return what the folders hold by now."""
    folders = [FOLDER / recipe for recipe in EVALUATIONS if (FOLDER / recipe).exists()]
    return Recording(entry for folder in folders for entry in read_recording(folder).entries())


def _this_machine() -> RecordedMachine:
    here = probe_machine(load_settings().cache_dir)
    return RecordedMachine(machine=Machine(**{name: getattr(here, name) for name in TOLD_OF_MACHINE}))


def main(words: list[str]) -> None:
    """Record the recipes named, or all."""
    recipes = [word for word in words if word != "--anew"] or list(EVALUATIONS)
    known = Recording() if "--anew" in words else _known()
    machine = known.machine or _this_machine()
    with tempfile.TemporaryDirectory() as cache:
        quick = RefereeSettings(
            cache_dir=Path(cache),
            search_timing_s=0.1,
            final_timing_s=0.2,
            batch_s=0.001,
            call_timeout_s=300.0,
        )
        with Referee(quick) as referee:
            evaluator = RecordedEvaluator(referee, known)
            for recipe in recipes:
                end = record(recipe, evaluator, machine)
                sys.stdout.write(f"{recipe}: {end['reason']}; {end['answers']}; {end['speedup']}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])

"""A recorded run of every recipe with models in every seat, played again: nobody is asked or measured.

After a change of prompts, recipes or what they are grounded in: ``python -m tests.e2e.record``.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab.servers.bad_server import BadServer, answers
from lab.servers.playing_model import PlayingModel
from tests.e2e.record import EVALUATIONS, EXPECTED, FOLDER, told

from kernelwright import api
from kernelwright.cli.main import run
from kernelwright.core.errors import UserError
from kernelwright.core.machine import Machine
from kernelwright.methods import recipes
from kernelwright.runs.recorded_run import load_run, save_run
from kernelwright.runs.recording import RecordedMachine
from kernelwright.settings import Settings
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import PEAKS


def test_there_is_a_recorded_run_of_every_recipe() -> None:
    assert set(EVALUATIONS) == set(recipes())


@pytest.mark.parametrize("recipe", EVALUATIONS)
def test_a_recorded_run_is_replayed_to_the_same_candidates_and_the_same_end(
    recipe: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERNELWRIGHT_API_KEY")
    store = open_store("sqlite://")
    outcome = api.replay_run(FOLDER / recipe, store=store, settings=settings)
    expected = json.loads((FOLDER / recipe / EXPECTED).read_text(encoding="utf-8"))
    assert told(store, outcome) == expected


@pytest.mark.parametrize("recipe", EVALUATIONS)
def test_a_recording_is_worth_replaying(recipe: str) -> None:
    recorded = load_run(FOLDER / recipe)
    expected = json.loads((FOLDER / recipe / EXPECTED).read_text(encoding="utf-8"))
    assert recorded.spec.recipe == recipe and recorded.spec.team == "llm"
    assert expected["winner"] and expected["answers"]["ok"] >= EVALUATIONS[recipe] - 1
    verdicts = Counter(
        entry.evaluation.is_verified for entry in recorded.recording.entries() if entry.kind == "evaluation"
    )
    assert verdicts[True] >= 3
    assert verdicts[False] >= 1 or recipe == "best-of-n"  # its seeds are all right


def test_recordings_hold_no_place_of_a_machine() -> None:
    for file in FOLDER.rglob("*.json*"):
        text = file.read_text(encoding="utf-8")
        assert not [word for word in ("/tmp/", "/home/", "/root", "/work/", "sk-") if word in text], file


@pytest.mark.parametrize(
    ("name", "said"), [("calls.jsonl", "no answer"), ("recording.jsonl", "no measurement")]
)
def test_what_is_missing_from_a_recording_is_one_clear_line(
    tmp_path: Path, settings: Settings, name: str, said: str
) -> None:
    folder = shutil.copytree(FOLDER / "refine", tmp_path / "cut")
    lines = (folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / name).write_text("".join(lines[:-1]), encoding="utf-8")
    with pytest.raises(UserError, match=said):
        api.replay_run(folder, store=open_store("sqlite://"), settings=settings)


def test_a_folder_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no recorded run can be read there"):
        load_run(tmp_path)
    (tmp_path / "spec.json").write_text("{}")
    with pytest.raises(UserError, match="not the spec of a run"):
        load_run(tmp_path)


def test_a_run_that_has_not_ended_is_not_recorded(tmp_path: Path, store: Store) -> None:
    run_id = store.create_run(load_run(FOLDER / "refine").spec)
    with pytest.raises(UserError, match="has not ended"):
        save_run(store, run_id, tmp_path / "r", RecordedMachine(machine=Machine(peaks=PEAKS)))
    assert not (tmp_path / "r").exists()


def test_the_command_line_records_a_run_and_replays_it_without_server_and_key(
    optimize: Callable[..., Any],
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with BadServer(answers(PlayingModel())) as server:
        words = ["--team", "llm", "--model", "openai:scripted", "--base-url", server.url]
        first = json.loads(
            optimize(
                *words, "--recipe", "refine", "--budget-evaluations", "3", "--record", "rec", "--json"
            ).out
        )
    monkeypatch.delenv("KERNELWRIGHT_API_KEY")
    assert run(["runs", "replay", "rec", "--json", "-o", "again.py"]) == 0
    again = json.loads(capsys.readouterr().out)
    for name in ("reason", "answers", "evaluation"):
        assert again[name] == first[name]
    assert Path("again.py").read_text() == Path("relu_sum_fast.py").read_text()
    assert len(list(store.iter_runs())) == 1  # a replay is kept nowhere unless asked
    assert run(["runs", "record", first["run_id"], "later"]) == 0
    assert Path("later/calls.jsonl").read_text() == Path("rec/calls.jsonl").read_text()

"""A recorded run of every recipe with models in every seat, played again: nobody is asked or measured.

After a change of recipes, roles or kinds of answer: ``python -m tests.e2e.record``. Words of prompts and
skills may change: golden prompts (``tests/agents/llm``) pin them.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.servers.bad_server import BadServer, answers
from lab.servers.playing_model import PlayingModel
from tests.e2e.record import EVALUATIONS, EXPECTED, FOLDER, told

from kernelwright import api
from kernelwright.agents.llm import prompts
from kernelwright.agents.llm.tape import FolderTape, MemoryTape
from kernelwright.cli.main import run
from kernelwright.core.errors import UserError
from kernelwright.core.machine import Machine
from kernelwright.methods import recipes
from kernelwright.runs.recorded_run import load_run, save_run
from kernelwright.runs.recording import RecordedMachine
from kernelwright.runs.tape import StoreTape
from kernelwright.settings import Settings
from kernelwright.skills.load import library_folder, load_skills
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


def reword(folder: Path, copy: Path) -> Path:
    """Copy a folder of Markdown files with other words in every one of them."""
    for file in shutil.copytree(folder, copy).rglob("*.md"):
        head, mark, body = file.read_text(encoding="utf-8").rpartition("\n---\n")
        file.write_text(f"{head}{mark}Said in other words.\n\n{body}", encoding="utf-8")
    return copy


@pytest.fixture
def reworded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other words in every prompt and in every skill."""
    folder = reword(prompts.prompts_folder(), tmp_path / "prompts")
    skills = load_skills(reword(library_folder(), tmp_path / "skills"))
    monkeypatch.setattr(prompts, "prompts_folder", lambda: folder)
    monkeypatch.setattr("kernelwright.agents.llm.team.load_skills", lambda: skills)
    prompts._environment.cache_clear()
    yield
    prompts._environment.cache_clear()


@pytest.mark.parametrize("recipe", ["kernelskill", "cupilot"])
def test_other_words_in_prompts_and_skills_change_nothing_in_a_replay(
    recipe: str, settings: Settings, reworded: None
) -> None:
    store = open_store("sqlite://")
    outcome = api.replay_run(FOLDER / recipe, store=store, settings=settings)
    assert told(store, outcome) == json.loads((FOLDER / recipe / EXPECTED).read_text(encoding="utf-8"))


def test_a_killed_run_asks_again_what_is_asked_in_other_words(
    store: Store, play: Any, reworded: None
) -> None:
    """Its answers are found by the request's content: ``ReplayOnly`` alone goes by the order."""
    recorded = load_run(FOLDER / "refine")
    old, new = MemoryTape(), StoreTape(store, store.create_run(recorded.spec))
    for call in FolderTape(FOLDER / "refine").calls():
        old.add(call)
        new.add(call)
    question = next(old.calls()).question
    assert question is not None
    assert old.find("a hash of other words", question) is new.find("a hash of other words", question) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"role": "planner"}, "call 3 asks coder .* recorded is one that asked planner"),
        ({"answer": "prompted JSON (x)"}, r"asks coder .* for text; .* for prompted JSON \(x\)"),
        ({"n_rejected": 1}, "recorded is one that asked coder .*, after 1 refused"),
        ({"temperature": 0.7}, "recorded is one that asked coder .*temperature 0.7"),
    ],
)
def test_who_is_asked_for_what_must_be_as_recorded(
    tmp_path: Path, settings: Settings, change: dict[str, object], said: str
) -> None:
    folder = shutil.copytree(FOLDER / "refine", tmp_path / "changed")
    calls = list(FolderTape(folder).calls())
    (folder / "calls.jsonl").unlink()
    tape = FolderTape(folder)
    for number, call in enumerate(calls, 1):
        assert call.question is not None
        question = call.question.model_copy(update=change if number == 3 else {})
        tape.add(call.model_copy(update={"question": question}))
    with pytest.raises(UserError, match=said):
        api.replay_run(folder, store=open_store("sqlite://"), settings=settings)


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

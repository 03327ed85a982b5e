"""What is told on stderr: -v, -q and --log-json; and the words that shells complete."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelwright.cli.main import COMMANDS, GROUPS
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.store_contract import make_spec

PROGRAM = [sys.executable, "-c", "from kernelwright.cli.main import main; main()"]


@pytest.mark.parametrize("command", [*COMMANDS, "runs list", "memory show", "store export", "doctor"])
def test_every_command_takes_the_options(cli: Any, command: str) -> None:
    shown = cli(*command.split(), "--help").out
    assert all(option in shown for option in ("--verbose", "--quiet", "--log-json"))


def test_json_lines_go_to_stderr_and_stdout_stays_as_it_is(cli: Any) -> None:
    plain = cli("runs", "list", "--json")
    for words in (["runs", "list", "--json", "--log-json"], ["--log-json", "runs", "list", "--json"]):
        told = cli(*words)
        assert (told.code, told.out) == (plain.code, plain.out)
        lines = [json.loads(line) for line in told.err.splitlines()]
        assert lines and all({"time", "level", "logger", "message"} <= set(line) for line in lines)
        assert lines[-1]["message"] == "ended" and lines[-1]["exit_code"] == 0
    assert cli("runs", "list", "--json").err == ""


def test_an_error_is_a_json_line_too(cli: Any) -> None:
    told = cli("runs", "show", "nothing", "--log-json")
    levels = {line["level"]: line["message"] for line in map(json.loads, told.err.splitlines())}
    assert told.code == 2 and "no run 'nothing'" in levels["error"]


def test_more_is_told_the_oftener_it_is_asked_for(cli: Any) -> None:
    told = [cli("runs", "list", *words).err for words in ([], ["-v"], ["-vv"])]
    assert "ended" not in told[0] and "ended" in told[1]
    assert "opened the store" not in told[1] and "opened the store" in told[2]


def test_quiet_tells_errors_alone(cli: Any) -> None:
    assert cli("runs", "list", "-q").err == ""
    assert "no run 'nothing'" in cli("runs", "show", "nothing", "-q").err


def test_the_events_of_a_run_are_told(cli: Any, engine: Any, task_file: Path) -> None:
    told = cli("optimize", str(task_file), "--log-json")
    assert told.code == 0
    messages = [json.loads(line) for line in told.err.splitlines()]
    assert messages[-1]["message"] == "ended" and messages[-1]["command"].startswith("optimize ")
    quiet = cli("optimize", str(task_file), "--again", "-q")
    assert quiet.err == "" and quiet.out


def test_nothing_is_left_behind(cli: Any) -> None:
    before = list(logging.getLogger().handlers), logging.getLogger("kernelwright").level
    cli("runs", "list", "-vv", "--log-json")
    assert (list(logging.getLogger().handlers), logging.getLogger("kernelwright").level) == before


def complete(shell: str, words: str, tmp_path: Path) -> str:
    """Return what a shell is offered for the last of the words, as its script asks for it."""
    asked = {
        "_KERNELWRIGHT_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "KERNELWRIGHT_STORE": str(tmp_path / "runs.db"),
    }
    done = subprocess.run(PROGRAM, capture_output=True, text=True, check=False, env=os.environ | asked)
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_options_and_runs(shell: str, tmp_path: Path) -> None:
    store = open_store(tmp_path / "runs.db")
    run_id = store.create_run(make_spec())
    store.close()
    assert "resume" in complete(shell, "kernelwright runs res", tmp_path)
    assert "--log-json" in complete(shell, "kernelwright optimize --log", tmp_path)
    assert run_id in complete(shell, f"kernelwright runs show {run_id[:4]}", tmp_path)


@pytest.mark.slow
def test_where_no_store_can_be_read_no_run_is_offered(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_text("no database")
    assert complete("bash", "kernelwright runs show ", tmp_path).strip() == ""


def test_groups_are_among_the_commands_that_are_tried() -> None:
    assert {"runs", "memory", "store"} <= set(GROUPS)

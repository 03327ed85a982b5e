"""``--confine-tasks`` on every command that takes a task."""

from pathlib import Path
from typing import Any

import pytest
from tests.strangers import ENDS, HONEST

TAKING = ("optimize", "evaluate", "check", "space", "tune", "bench", "compare")


@pytest.mark.parametrize("command", TAKING)
def test_every_command_that_takes_a_task_has_the_option(cli: Any, command: str) -> None:
    assert "--confine-tasks" in cli(command, "--help").out.replace("\n", " ")


@pytest.mark.slow
def test_what_a_strangers_task_does_is_one_line(cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "ends.py"
    file.write_text(ENDS + HONEST, encoding="utf-8")
    found = cli("space", file, "--confine-tasks")
    assert found.code == 2 and "reference's process" in found.err
    assert len(found.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("optimize", "{file}", "--confine-tasks", "--dynamic", "batch:1-8"), "--dynamic: not with"),
        (("optimize", "{file}", "--confine-tasks", "--blocks"), "--blocks"),
        (
            ("check", "{folder}", "--confine-tasks", "--tasks", "{folder}/list.yaml"),
            "name the files themselves",
        ),
    ],
)
def test_what_cannot_be_confined_is_refused_in_one_line(
    cli: Any, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    file = tmp_path / "honest.py"
    file.write_text(HONEST, encoding="utf-8")
    found = cli(*(word.format(file=file, folder=tmp_path) for word in words))
    assert found.code == 2 and says in found.err and len(found.err.strip().splitlines()) == 1

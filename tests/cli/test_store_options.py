"""The store on the command line: who is at work, what a resumed run remembers, and passwords."""

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from kernelwright.core.run import RunState
from kernelwright.store.address import has_password, shown_address, shown_command
from kernelwright.store.lease import Owner
from kernelwright.store.sqlstore import open_store

PASSWORD = "s3cr3t"
URL = f"postgresql://me:{PASSWORD}@127.0.0.1:1/db"


@pytest.fixture
def stopped(cli: Any, engine: Any, task_file: Path) -> str:
    """A run that was interrupted."""
    engine.interrupt_after = 5
    result = cli("optimize", task_file, "-o", "out/k.py", "--report", "out/r.html", "--json")
    return str(result.json["resume_with"].split()[-1])


def test_a_killed_run_is_shown_as_interrupted_and_can_be_resumed(cli: Any, stopped: str) -> None:
    assert [run["state"] for run in cli("runs", "list", "--json").json] == ["interrupted"]
    assert f"Resume: kernelwright runs resume {stopped}" in cli("runs", "show", stopped).out
    assert cli("runs", "show", stopped, "--json").json["state"] == "interrupted"


def test_a_run_at_work_is_shown_as_running_and_is_not_to_be_resumed(
    cli: Any, stopped: str, tmp_path: Path
) -> None:
    store = open_store(tmp_path / "runs.db")
    store.take_lease(stopped, Owner.here())
    assert [run["state"] for run in cli("runs", "list", "--json").json] == ["running"]
    shown = cli("runs", "show", stopped)
    assert "(running)" in shown.out and "Resume" not in shown.out
    assert cli("runs", "show", stopped, "--json").json["lease"]["owner"]["pid"] == os.getpid()
    assert "is being carried on" in cli("runs", "export", stopped).err


def test_a_resumed_run_writes_where_it_was_asked_to(
    cli: Any, stopped: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    result = cli("runs", "resume", stopped, "--json")
    assert result.code == 0 and result.json["kernel"] == str(tmp_path / "out" / "k.py")
    assert (tmp_path / "out" / "r.html").exists() and not list(Path.cwd().iterdir())


def test_a_resumed_run_can_be_told_otherwise(cli: Any, stopped: str) -> None:
    before = Path("out/k.py").read_text(encoding="utf-8")  # the best so far, as the interruption left it
    assert cli("runs", "resume", stopped, "-o", "other.py").code == 0
    assert Path("other.py").exists() and Path("out/k.py").read_text(encoding="utf-8") == before


def test_everything_beside_the_search_is_kept_with_the_run(cli: Any, engine: Any, task_file: Path) -> None:
    words = ["--evaluator", f"drop:{task_file.parent / 'drop'}", "--seed", "3"]
    run_id = cli("optimize", task_file, *words, "--json").json["run_id"]
    spec = cli("runs", "show", run_id, "--json").json["run"]["spec"]
    assert spec["request"]["evaluator"] == words[1] and spec["seed"] == 3
    assert spec["folder"] == str(task_file.parent) and spec["request"]["store"] is None


def test_reading_commands_leave_a_foreign_database_as_it_is(cli: Any, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.executescript("CREATE TABLE walks (distance REAL)")
    connection.close()
    before = (tmp_path / "other.db").read_bytes()
    for words in (["runs", "list"], ["memory", "show"], ["memory", "learn"]):
        result = cli(*words, "--store", tmp_path / "other.db")
        assert result.code == 2 and "something else, left as it is" in result.err
    assert (tmp_path / "other.db").read_bytes() == before


def test_a_store_that_was_named_and_is_missing_is_one_line(cli: Any, tmp_path: Path) -> None:
    result = cli("runs", "list", "--store", tmp_path / "none.db")
    assert result.code == 2 and result.err.count("\n") == 1 and "there is no store at" in result.err
    assert not (tmp_path / "none.db").exists()


def test_an_older_store_is_upgraded_by_looking_at_it_where_it_may_be(cli: Any, tmp_path: Path) -> None:
    version_1 = Path(__file__).parents[1] / "store" / "version_1.sql"
    connection = sqlite3.connect(tmp_path / "old.db")
    connection.executescript(version_1.read_text(encoding="utf-8"))
    connection.close()
    (run,) = cli("runs", "list", "--store", tmp_path / "old.db", "--json").json
    assert run["state"] == RunState.FINISHED


COMMANDS = [
    ["runs", "list"],
    ["runs", "show", "x"],
    ["runs", "resume", "x"],
    ["runs", "record", "x", "folder"],
    ["runs", "export", "x"],
    ["runs", "report", "x"],
    ["memory", "show"],
    ["memory", "findings"],
    ["memory", "archive"],
    ["memory", "learn"],
    ["optimize", "relu.py"],
    ["bench", "relu.py"],
    ["compare", "relu.py"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("url", [URL, URL.replace(":1/", ":port/"), f"postgresql:///db?password={PASSWORD}"])
def test_no_command_prints_a_password(
    cli: Any, engine: Any, task_file: Path, words: list[str], url: str, tmp_path: Path
) -> None:
    for more in ([], ["--json"]):
        result = cli(*words, "--store", url, *more)
        assert result.code == 2 and PASSWORD not in result.out + result.err, result
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in written if PASSWORD.encode() in file.read_bytes()]


@pytest.mark.parametrize("verb", ["optimize", "bench"])
def test_what_an_interrupted_command_says_and_writes_holds_no_password(
    cli: Any, engine: Any, task_file: Path, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kernelwright.store.sqlstore.open_store", lambda where, **_: open_store(tmp_path / "s.db")
    )
    engine.interrupt_after = 3
    result = cli(verb, task_file, "--store", URL, "--json")
    assert result.code == 130 and PASSWORD not in result.out + result.err
    assert '--store "$KERNELWRIGHT_STORE"' in result.json["resume_with"]
    run_id = next(open_store(tmp_path / "s.db").iter_runs()).run_id
    for words in (["runs", "show", run_id], ["runs", "show", run_id, "--json"], ["runs", "list"]):
        assert PASSWORD not in cli(*words, "--store", URL).out
    cli("runs", "resume", run_id, "--store", URL)
    cli("runs", "report", run_id, "--store", URL)
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert written and not [file for file in written if PASSWORD.encode() in file.read_bytes()]


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("postgresql://me:s3cr3t@h/db", "postgresql+psycopg://me:***@h/db"),
        ("postgres://h/db?password=s3cr3t", "postgresql+psycopg://h/db?password=***"),
        ("mysql+pymysql://me:s3cr3t@h:3306/db", "mysql+pymysql://me:***@h:3306/db"),
        ("/a/b.db", "/a/b.db"),
        ("sqlite:////a/b.db", "/a/b.db"),
    ],
)
def test_an_address_is_shown_without_its_password(where: str, shown: str) -> None:
    assert shown_address(where) == shown and has_password(where) == (PASSWORD in where)


def test_a_command_names_such_a_store_by_the_variable() -> None:
    words = ["kernelwright", "runs", "--store", URL, f"--store={URL}", "--evaluator", "http://h:1", "a b"]
    variable = '"$KERNELWRIGHT_STORE"'
    expected = f"kernelwright runs --store {variable} --store={variable} --evaluator http://h:1 'a b'"
    assert shown_command(words) == expected

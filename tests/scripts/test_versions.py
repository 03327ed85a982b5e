"""The version matrix as a program. Stubs are labelled: no environment is made, and no test is run."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import versions

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="fine"/>
<testcase classname="tests.a" name="left out"><skipped/></testcase>
<testcase classname="tests.b" name="broken"><failure/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def stub_commands(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stub: every command succeeds but those whose words hold ``fails``; pytest writes ``report``."""
    how: dict[str, Any] = {"fails": "nothing", "report": REPORT, "code": 1}

    def stub_run(command: list[object], **_: Any) -> SimpleNamespace:
        words = [str(word) for word in command]
        for word in words:
            if word.startswith("--junit-xml="):
                Path(word.removeprefix("--junit-xml=")).write_text(how["report"], encoding="utf-8")
                return SimpleNamespace(returncode=how["code"])
        if words[0] in ("python3.99", "python3.100"):
            raise FileNotFoundError(words[0])
        if "venv" in words:
            Path(words[-1]).mkdir(parents=True)
        if any(how["fails"] in word for word in words):
            text = "WARNING: file:///somewhere/simple is ignored\nERROR: no such version\n"
            return SimpleNamespace(returncode=1, stdout="", stderr=text)
        is_torch = "torch.__version__" in words[-1]
        return SimpleNamespace(returncode=0, stdout="2.9.0+cpu\n" if is_torch else "3.11.2\n", stderr="")

    monkeypatch.setattr(versions.subprocess, "run", stub_run)
    return how


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call the program; returns its exit code and the rows."""

    def call(*words: str) -> tuple[int, list[dict[str, Any]]]:
        out = tmp_path / "versions.json"
        paths = ["--work", str(tmp_path / "work"), "--out", str(out)]
        monkeypatch.setattr(sys, "argv", ["versions.py", *words, *paths])
        return versions.main(), json.loads(out.read_text(encoding="utf-8"))

    return call


def test_a_pair_is_counted_and_its_failures_are_named(
    stub_commands: dict[str, Any], tried: Any, tmp_path: Path
) -> None:
    code, (row,) = tried("--torch", "2.9.0")
    assert code == 1
    assert (row["python"], row["torch"], row["outcome"]) == ("3.11.2", "2.9.0+cpu", "failed")
    assert (row["passed"], row["skipped"], row["failed"]) == (1, 1, ["tests.b::broken"])
    assert "| 3.11.2 | 2.9.0+cpu | failed | tests | 1 | 1 | `tests.b::broken` |" in (
        tmp_path / "versions.md"
    ).read_text(encoding="utf-8")


def test_what_cannot_be_installed_says_why_without_names_of_places(
    stub_commands: dict[str, Any], tried: Any
) -> None:
    stub_commands["fails"] = "torch==9.9"
    code, (row,) = tried("--torch", "9.9")
    assert (code, row["outcome"], row["why"]) == (0, "cannot be installed", "torch: ERROR: no such version")


def test_a_python_that_is_not_there_is_untried(tried: Any) -> None:
    code, (row,) = tried("--python", "python3.99")
    assert (code, row["python"], row["outcome"]) == (0, "3.99", "untried")


def test_a_name_that_runs_no_python_is_untried(tmp_path: Path, tried: Any) -> None:
    shim = tmp_path / "python3.98"
    shim.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    shim.chmod(0o755)
    code, (row,) = tried("--python", str(shim))
    assert (code, row["python"], row["outcome"]) == (0, "3.98", "untried")


def test_tests_that_do_not_end_are_no_count(stub_commands: dict[str, Any], tried: Any) -> None:
    stub_commands["code"] = 2
    code, (row,) = tried("--torch", "2.9.0")
    assert (code, row["outcome"], row["why"]) == (1, "failed", "tests: pytest ended with code 2")


def test_rows_stand_in_the_order_of_versions_and_once(stub_commands: dict[str, Any], tried: Any) -> None:
    stub_commands.update(code=0, report="<testsuites/>")
    tried("--python", "python3.100", "python3.99", "--torch", "2.9.0")
    code, rows = tried("--python", "python3.99", sys.executable, "--torch", "2.9.0")
    assert code == 0
    assert [row["python"] for row in rows] == ["3.11.2", "3.99", "3.100"]


def test_every_other_pair_is_listed_as_untried(
    stub_commands: dict[str, Any], tried: Any, tmp_path: Path
) -> None:
    stub_commands.update(code=0, report="<testsuites/>")
    tried("--python", "python3.99", "--torch", "2.8.0")
    _, rows = tried("--torch", "2.9.0")
    assert [(row["python"], row["torch"], row["outcome"]) for row in rows] == [
        ("3.11.2", "2.8.0", "untried"), ("3.11.2", "2.9.0+cpu", "passed"),
        ("3.99", "2.8.0", "untried"), ("3.99", "2.9.0", "untried"),
    ]  # fmt: skip
    assert "| 3.99 | 2.9.0 | untried | - |" in (tmp_path / "versions.md").read_text(encoding="utf-8")
    stub_commands["fails"] = "torch==2.8"
    _, rows = tried("--torch", "2.8.0")
    outcomes = {(row["python"], row["torch"]): row["outcome"] for row in rows}
    assert len(rows) == 4 and outcomes["3.11.2", "2.8.0"] == "cannot be installed"


def test_the_oldest_torch_is_the_one_that_the_project_admits() -> None:
    assert f"torch>={versions.oldest_torch()}".startswith(
        next(r for r in versions.PROJECT["dependencies"] if r.startswith("torch>="))
    )


def test_help_names_every_option() -> None:
    told = subprocess.run([sys.executable, versions.__file__, "--help"], text=True, capture_output=True)
    assert told.returncode == 0
    assert all(option in told.stdout for option in ("--python", "--torch", "--tests", "--jobs", "--out"))

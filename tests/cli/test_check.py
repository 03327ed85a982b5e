"""What ``kernelwright check`` prints, writes and exits with; the examination itself is stubbed."""

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kernelwright.cli.interruption import EXIT_INTERRUPTED
from kernelwright.core.checkup import NOT_CHECKED, Checkup, Flag, Severity
from kernelwright.core.task import Mode, Task

CONSTANT = Flag(check="constant-output", severity=Severity.UNUSABLE, says="always 0", advice="draw others")
DEAD = Flag(check="dead-input", severity=Severity.DOUBTFUL, says="input 1 | any", advice="remove it")
BUFFERS = Flag(check="updates-buffers", severity=Severity.NOTE, says="writes 3", advice="eval mode")


class StubChecker:
    """Stub: finds what it was told to."""

    flags: ClassVar[dict[str, Any]]

    def __init__(self, settings: object) -> None:
        pass

    def __enter__(self) -> "StubChecker":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def check(self, task: Task, *, sizes: dict[str, Any], on_check: Any) -> Checkup:
        on_check("contract")
        self.flags["asked"].append((task.name, task.mode, [w.overrides for w in task.workloads]))
        return Checkup(task=task.name, task_id=task.id, sizes=sizes, flags=self.flags.get(task.name, ()))


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Flags by task name, in the place of an examination; names examined are kept under ``asked``."""
    StubChecker.flags = {"asked": []}
    monkeypatch.setattr("kernelwright.referee.checkup.checker.Checker", StubChecker)
    return StubChecker.flags


def put(task_file: Path, *names: str) -> None:
    """Make a folder ``tasks`` of tasks that differ in nothing but their names."""
    folder = task_file.parent / "tasks"
    folder.mkdir()
    for name in names:
        text = f"{task_file.read_text(encoding='utf-8')}\nNAME = {name!r}\n"
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("flags", "code", "headline"),
    [
        ((), 0, "Fine: nothing found against it"),
        ((BUFFERS,), 0, "Fine, with notes"),
        ((BUFFERS, DEAD), 1, "Doubtful"),
        ((BUFFERS, DEAD, CONSTANT), 1, "Unusable"),
    ],
)
def test_one_task_says_everything_and_exits_by_its_worst(
    cli: Any, found: Any, task_file: Path, flags: tuple[Flag, ...], code: int, headline: str
) -> None:
    found["relu"] = flags
    result = cli("check", task_file, "--full-size")
    assert result.code == code
    assert result.out.startswith(headline)
    for flag in flags:
        assert f"{flag.severity}: {flag.check}: {flag.says}" in result.out and flag.advice in result.out


def test_a_folder_gives_a_table_worst_flags_and_counts(cli: Any, found: Any, task_file: Path) -> None:
    put(task_file, "a", "b", "c")
    found |= {"a": (BUFFERS, CONSTANT), "b": (DEAD,)}
    result = cli("check", "tasks", "--full-size", "--out", "out")
    assert result.code == 1
    assert "3 tasks: 1 unusable, 1 doubtful, 1 fine" in result.out
    assert "constant-output, updates-buffers" in result.out and "constant-output: always 0" in result.out
    assert "[1/3] a: unusable, constant-output, updates-buffers" in result.err
    text = Path("out/results.md").read_text(encoding="utf-8")
    assert r"**dead-input** input 1 \| any" in text and "## Nothing found\n\nc (at its own sizes)" in text
    rows = json.loads(Path("out/results.json").read_text(encoding="utf-8"))["tasks"]
    assert [Checkup.model_validate(row).task for row in rows] == ["a", "b", "c"]


def test_resume_examines_only_what_is_missing(cli: Any, found: Any, task_file: Path) -> None:
    put(task_file, "a", "b", "c")
    found["a"] = (DEAD,)
    cli("check", "tasks", "--full-size", "--limit", "2", "--out", "out")
    found["asked"].clear()
    result = cli("check", "tasks", "--full-size", "--out", "out", "--resume", "--json")
    assert [name for name, *_ in found["asked"]] == ["c"]
    assert result.code == 1
    assert [row["flags"] != [] for row in result.json["tasks"]] == [True, False, False]


def test_each_result_keeps_the_date_and_the_machine_it_was_found_on(
    cli: Any, found: Any, task_file: Path
) -> None:
    put(task_file, "a", "b", "c")
    then = []
    for n, date in enumerate(("2020-01-01 00:00 UTC", "2021-01-01 00:00 UTC"), 1):
        cli("check", "tasks", "--full-size", "--limit", str(n), "--out", "out", "--resume")
        written = json.loads(Path("out/results.json").read_text(encoding="utf-8"))
        then.append({**written, "date": date, "environment": {"processor": f"machine {n}"}})
        Path("out/results.json").write_text(json.dumps(then[-1]), encoding="utf-8")
    now = cli("check", "tasks", "--full-size", "--out", "out", "--resume", "--json").json
    ids = [row["task_id"] for row in now["tasks"]]
    assert now["earlier"] == [
        {"date": old["date"], "environment": old["environment"], "task_ids": [of]}
        for old, of in zip(then, ids, strict=False)
    ]
    text = Path("out/results.md").read_text(encoding="utf-8")
    assert "## Checked earlier\n\n2020-01-01 00:00 UTC. processor machine 1. a." in text


def test_resume_tries_again_what_could_not_be_checked(cli: Any, found: Any, task_file: Path) -> None:
    put(task_file, "a", "b")
    found["a"] = (Flag(check=NOT_CHECKED, severity=Severity.DOUBTFUL, says="late", advice="smaller"),)
    cli("check", "tasks", "--full-size", "--out", "out")
    found["asked"].clear()
    cli("check", "tasks", "--full-size", "--out", "out", "--resume")
    assert [name for name, *_ in found["asked"]] == ["a"]


def test_a_resume_that_is_interrupted_loses_nothing(
    cli: Any, found: Any, task_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(task_file, "a", "b", "c", "d")
    cli("check", "tasks", "--full-size", "--only", "[bd]", "--out", "out")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    check = StubChecker.check
    monkeypatch.setattr(
        StubChecker,
        "check",
        lambda self, task, **rest: (stop if task.name == "c" else check)(self, task, **rest),
    )
    assert cli("check", "tasks", "--full-size", "--out", "out", "--resume").code == EXIT_INTERRUPTED
    rows = json.loads(Path("out/results.json").read_text(encoding="utf-8"))["tasks"]
    assert [row["task"] for row in rows] == ["a", "b", "d"]


def test_sizes_are_reduced_to_fit_and_said(cli: Any, found: Any, task_file: Path) -> None:
    source = task_file.read_text(encoding="utf-8").replace("batch_size = 16", "batch_size = 1 << 20")
    task_file.write_text(source.replace("1 << 20", str(1 << 20)), encoding="utf-8")
    result = cli("check", task_file)
    (name, _, (overrides,)) = found["asked"][0]
    assert name == "relu" and overrides["batch_size"] < 1 << 20
    assert f"relu, at batch_size={overrides['batch_size']}" in result.out


def test_mode_and_workloads_are_those_asked_for(cli: Any, found: Any, task_file: Path) -> None:
    cli("check", task_file, "--mode", "eval", "--workload", "small:batch_size=2")
    assert found["asked"] == [("relu", Mode.EVAL, [{"batch_size": 2}])]


@pytest.mark.parametrize(
    "words",
    [["missing.py"], [".", "--group", "main"], [".", "--resume"], ["relu.py", "--only", "nothing*"]],
    ids=["no file", "group without manifest", "resume without out", "nothing matches"],
)
def test_bad_usage_exits_2_with_one_line(cli: Any, found: Any, task_file: Path, words: list[str]) -> None:
    result = cli("check", *words)
    assert result.code == 2 and result.out == ""
    assert result.err.startswith("error: ") and len(result.err.splitlines()) == 1


@pytest.mark.parametrize("text", ["{}", '{"tasks": [], "date": "", "environment": "x"}', "[]", "no JSON"])
def test_a_folder_with_other_results_is_not_resumed(cli: Any, found: Any, task_file: Path, text: str) -> None:
    Path("out").mkdir()
    Path("out/results.json").write_text(text, encoding="utf-8")
    result = cli("check", task_file, "--out", "out", "--resume")
    assert result.code == 2 and "not results of `kernelwright check`" in result.err

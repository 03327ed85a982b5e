"""``--confine-tasks`` on every command that takes a task."""

from pathlib import Path
from typing import Any

import pytest
from tests.formats.samples import TASK
from tests.strangers import ENDS, HONEST

TAKING = (
    "optimize", "evaluate", "check", "space", "tune", "bench", "compare", "submission", "convert export",
)  # fmt: skip


@pytest.mark.parametrize("command", TAKING)
def test_every_command_that_takes_a_task_has_the_option(cli: Any, command: str) -> None:
    assert "--confine-tasks" in cli(*command.split(), "--help").out.replace("\n", " ")


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


@pytest.mark.slow
def test_a_strangers_task_is_exported_as_ones_own(cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "scaled.py"
    file.write_text(TASK, encoding="utf-8")
    for folder, words in (("own", ()), ("strange", ("--confine-tasks",))):
        assert cli("convert", "export", "flashinfer", file, "--out", tmp_path / folder, *words).code == 0
    written = [
        {path.relative_to(folder): path.read_text() for path in folder.rglob("*.json*")}
        for folder in (tmp_path / "own", tmp_path / "strange")
    ]
    assert written[0] == written[1] and written[0]


SAYS_WHAT_IT_LIKES = """
import json, os, sys
for name in os.listdir("/proc/self/fd"):
    try:
        os.write(int(name), json.dumps({"seen": SEEN}).encode() + b"\\n")
    except OSError:
        pass
os._exit(0)
"""
SEEN = {"init": [], "inputs": {"x": {"shape": [2], "dtype": "float32"}}, "outputs": [], "state": {}}
FORGED = {
    "an argument that is code": {"inputs": {"x, y=print(1)": 1.0}},
    "a constructor's argument that is code": {"init": ["__import__('os').system('true')"]},
    "a type that is code": {"outputs": [{"shape": [2], "dtype": "float32\n"}]},
    "a negative size": {"outputs": [{"shape": [-2], "dtype": "float32"}]},
    "another form": {"more": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", FORGED)
def test_a_forged_description_of_a_call_is_refused(cli: Any, tmp_path: Path, case: str) -> None:
    file = tmp_path / "forges.py"
    file.write_text(SAYS_WHAT_IT_LIKES.replace("SEEN", repr(SEEN | FORGED[case])) + HONEST, encoding="utf-8")
    found = cli("convert", "export", "flashinfer", file, "--confine-tasks", "--out", tmp_path / "out")
    assert found.code == 2 and "nothing that can be used" in found.err
    assert len(found.err.strip().splitlines()) == 1 and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_somebodys_problems_are_judged_in_the_sandbox(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_TEST_STRANGERS", "secret")
    planted = tmp_path / "planted"
    spy = (
        f"import os\nif 'KERNELWRIGHT_TEST_STRANGERS' in os.environ: open({str(planted)!r}, 'w').close()\n"
        f"try: open({str(planted)!r}, 'w').close()\nexcept OSError: pass\n"
    )
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "1_Strange.py").write_text(spy + HONEST, encoding="utf-8")
    (tmp_path / "run").mkdir()
    kernel = tmp_path / "run" / "level_1_problem_1_sample_0_kernel.py"
    kernel.write_text(HONEST.replace("class Model(", "class ModelNew("), encoding="utf-8")
    words = ("--confine-tasks", "--max-mb", "1000", "--json")
    found = cli("submission", tmp_path / "run", tmp_path, *words)
    assert '"verified"' in found.out and not planted.exists()

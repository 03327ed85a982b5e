"""Every kind of bad input ends in one clear line on stderr and exit code 2."""

from pathlib import Path
from typing import Any

import pytest

from kernelwright.core.errors import KernelwrightError, MachineError, TaskError


def check_one_line(result: Any, *words: str) -> None:
    assert result.code == 2, result
    assert result.out == ""
    (line,) = result.err.strip().splitlines()
    assert line.startswith("error: ")
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 1\n", ["bad.py", "Model"]),
        ("class Model(:\n", ["bad.py:1", "syntax error"]),
        ("\x00", ["bad.py"]),
        ("", ["bad.py", "get_inputs"]),
    ],
    ids=["no Model", "syntax error", "null byte", "empty"],
)
@pytest.mark.parametrize("command", ["optimize", "bench", "evaluate"])
def test_a_file_that_is_no_task(cli: Any, command: str, source: str, words: list[str]) -> None:
    Path("bad.py").write_text(source, encoding="utf-8")
    Path("kernel.py").write_text("class ModelNew: pass\n", encoding="utf-8")
    kernel = ["kernel.py"] if command == "evaluate" else []
    check_one_line(cli(command, "bad.py", *kernel), *words)


EXITS = """
import sys
class Model: pass
def get_inputs(): return []
def get_init_inputs(): return []
sys.exit("needs a key")
"""


def test_a_file_that_asks_to_exit_is_no_success(cli: Any) -> None:
    Path("bad.py").write_text(EXITS, encoding="utf-8")
    check_one_line(cli("optimize", "bad.py"), "bad", "needs a key")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("rows", ["'rows'", "batch:1-64"]),
        ("batch:4-2", ["give a range"]),
        ("n=elsewhere:0:1-4", ["'elsewhere'", "known"]),
        ("n=x:7:1-4", ["no axis 7"]),
    ],
)
def test_a_dynamic_axis_that_is_not_there(cli: Any, task_file: Path, asked: str, words: list[str]) -> None:
    check_one_line(cli("optimize", task_file, "--dynamic", asked), "--dynamic", *words)


def test_a_file_that_is_not_there(cli: Any, task_file: Path) -> None:
    check_one_line(cli("optimize", "missing.py"), "missing.py", "no such file")
    check_one_line(cli("bench", "missing"), "missing", "no such file or folder")
    check_one_line(cli("evaluate", task_file, "missing.py"), "missing.py", "cannot be read")


@pytest.mark.parametrize(
    "error",
    [
        TaskError("relu.py: forward raised ValueError: boom; fix the reference and run again"),
        TaskError("relu.py: the output is a str; a task returns tensors"),
        TaskError("relu.py: two calls differ; the reference must be deterministic"),
        TaskError("relu.py: the output is not finite; change the inputs"),
        MachineError("relu.py needs 93 GiB, 20 GiB are free; scale batch_size down"),
        MachineError("no C++ compiler found; install g++ 9 or newer\nor set CXX"),
    ],
    ids=["raises", "no tensors", "non-deterministic", "non-finite", "too large", "no compiler"],
)
def test_what_the_engine_refuses_is_one_line_and_is_kept_with_the_run(
    cli: Any, engine: Any, task_file: Path, error: KernelwrightError
) -> None:
    engine.error = error
    check_one_line(cli("optimize", task_file), str(error).split(";")[0])
    (run,) = cli("runs", "list", "--json").json
    assert run["state"] == "failed"
    assert run["result"] == str(error)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--recipe", "magic"], ["unknown recipe 'magic'", "kernelskill"]),
        (["--target", "cuda/triton"], ["target 'cuda/triton' needs a GPU", "cpu/cpp"]),
        (["--team", "nobody"], ["unknown team 'nobody'", "expert"]),
        (["--team", "llm"], ["the team 'llm' needs a model", "--model PROVIDER:NAME"]),
        (["--workload", "small:batch_size"], ["--workload", "NAME:GLOBAL=VALUE"]),
        (["--workload", "small:nothing=3"], ["small", "nothing"]),
        (["--workload", "a:batch_size=1", "--workload", "a:batch_size=2"], ["given twice"]),
        (["-o", "/proc/nowhere/k.py"], ["cannot write /proc/nowhere/k.py", "name another place"]),
        (["--report", "."], ["cannot write .", "is a folder"]),
        (["--store", "/proc/nothing/runs.db"], ["/proc/nothing"]),
    ],
)
def test_options_that_make_no_sense(
    cli: Any, engine: Any, task_file: Path, words: list[str], expected: list[str]
) -> None:
    check_one_line(cli("optimize", task_file, *words), *expected)
    assert engine.played == []


def test_a_store_that_is_not_a_store(cli: Any) -> None:
    Path("runs.db").write_text("this is not SQLite, and long enough to look like something\n" * 40)
    check_one_line(cli("runs", "list"), "runs.db")


def test_names_that_are_not_there(cli: Any, task_file: Path) -> None:
    check_one_line(cli("skills", "show", "magic"), "unknown skill 'magic'")
    check_one_line(cli("runs", "show", "zzz"), "no run 'zzz'")
    check_one_line(cli("evaluate", task_file, task_file, "--baseline", "jax"), "unknown baseline 'jax'")
    check_one_line(cli("bench", task_file, "--only", "conv*"), "no task matches", "conv*")


def test_json_errors_are_a_document_too(cli: Any) -> None:
    result = cli("optimize", "missing.py", "--json")
    assert result.code == 2
    assert result.json["exit_code"] == 2
    assert "missing.py" in result.json["error"]


def test_a_defect_of_ours_is_one_line_and_a_traceback_file(cli: Any, engine: Any, task_file: Path) -> None:
    engine.error = ZeroDivisionError("oops")
    result = cli("optimize", task_file)
    check_one_line(result, "ZeroDivisionError: oops", "traceback in ")
    trace = Path(result.err.strip().rpartition("traceback in ")[2])
    assert "ZeroDivisionError: oops" in trace.read_text(encoding="utf-8")
    trace.unlink()


def test_usage_errors_exit_2(cli: Any) -> None:
    assert cli("optimize").code == 2
    assert cli("nonsense").code == 2


MODEL = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x)


def get_inputs():
    return [torch.ones(4)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["-o", "model.py"], ["model.py", "beside the model's"]),
        (["--report", "model.py"], ["model.py", "beside the model's"]),
        (["-o", "same", "--report", "./same"], ["same", "two files"]),
        (["--with-backward", "-o", "mine"], ["mine holds something else", "name a new folder"]),
    ],
    ids=["kernel over model", "report over model", "one file", "folder of another"],
)
def test_no_file_of_the_user_is_written_over(cli: Any, asked: list[str], words: list[str]) -> None:
    Path("model.py").write_text(MODEL, encoding="utf-8")
    Path("mine").mkdir()
    Path("mine", "thesis.txt").write_text("important", encoding="utf-8")
    check_one_line(cli("optimize", "model.py", *asked), *words)
    assert Path("model.py").read_text(encoding="utf-8") == MODEL

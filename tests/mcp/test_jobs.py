"""What the jobs answer, in this process and with nothing measured."""

from pathlib import Path

import pytest
from tests.mcp.test_loop import FOR_GPUS, OPEN, TASK

from kernelwright.core.errors import MachineError, UserError
from kernelwright.mcp.answers import Answer
from kernelwright.mcp.jobs import JOBS, JobContext
from kernelwright.settings import Settings, load_settings

pytestmark = pytest.mark.slow


def ask(folder: Path, job: str, **arguments: object) -> Answer:
    where = load_settings()
    said: list[str] = []
    answer = JOBS[job](JobContext(where, said.append), **arguments)
    assert said, "a job says what it does"
    return type(answer).model_validate_json(answer.model_dump_json())


def test_the_space_of_a_task(tmp_path: Path) -> None:
    found = ask(tmp_path, "space", task=TASK, options={"sample": 2}).model_dump()
    assert len(found["points"]) == 2 and found["log10"] > 0 and found["decisions"]
    with pytest.raises(UserError, match="more than 200"):
        ask(tmp_path, "space", task=TASK, options={"sample": 201})


def test_a_move_that_cannot_be_is_an_error_that_says_where_its_skill_applies(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"move 1, diagonal-matmul.*applies at: \w+"):
        ask(tmp_path, "lower_plan", task=TASK, moves=[{"skill": "diagonal-matmul", "region": "nowhere"}])


def test_a_plan_becomes_a_kernel_and_says_what_may_follow(tmp_path: Path) -> None:
    found = ask(tmp_path, "lower_plan", task=TASK).model_dump()
    assert "class ModelNew" in found["source"] and found["moves"][0]["skill"] == "diagonal-matmul"


def test_what_a_kernel_leaves_open_is_tuned(tmp_path: Path) -> None:
    found = ask(tmp_path, "tune", task=TASK, kernel=OPEN, options={"seconds": 20}).model_dump()
    assert found["values"] == {"WAY": 1} and found["points"] == 2
    assert found["verdict"]["verified"]


def test_a_store_without_runs_recalls_nothing(tmp_path: Path) -> None:
    where = Settings(tmp_path, tmp_path, f"{tmp_path}/runs.db")
    found = JOBS["memory_recall"](JobContext(where, lambda line: None), task=TASK, count=2).model_dump()
    assert found["next"] and not any(found[name] for name in ("findings", "plans"))


def test_a_kernel_for_a_gpu_is_inspected_or_says_what_is_missing(tmp_path: Path) -> None:
    try:
        (report,) = ask(tmp_path, "inspect", kernel=FOR_GPUS, gpus=["sm_90"]).model_dump()["gpus"]
    except (UserError, MachineError) as error:
        assert "install" in str(error)
    else:
        assert report["can_run"] and [one["kernel"] for one in report["kernels"]] == ["twice"]

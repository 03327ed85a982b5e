"""Who captures a task's graphs, and what a stranger's task is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.strangers import HONEST

from kernelwright.api.capturing import capturing
from kernelwright.api.optimizing import OptimizeResult
from kernelwright.api.starting import begin, resume
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.places import AsSaved, AsText
from kernelwright.core.request import RunRequest
from kernelwright.core.task import Task
from kernelwright.settings import load_settings
from kernelwright.store.sqlstore import open_store
from kernelwright.tasks.capture import capture_task


def test_the_users_own_tasks_are_captured_here() -> None:
    with capturing(load_settings()) as capture:
        assert capture is capture_task


def test_the_module_of_a_strangers_task_is_not_built_here(tmp_path: Path) -> None:
    where = replace(load_settings(), confine_tasks=True)
    found = OptimizeResult(
        run_id="r", evaluation=None, source=HONEST, reason="", store=open_store(str(tmp_path / "r.db")),
        task=Task(name="stranger", source=HONEST), winner=Candidate(source=HONEST), settings=where,
    )  # fmt: skip
    for reach in (lambda: found.module, lambda: found.delivery):
        with pytest.raises(UserError, match="in this process"):
            reach()
    assert replace(found, settings=load_settings(), winner=None).module is not None


def test_a_live_module_is_no_strangers(tmp_path: Path) -> None:
    saved = tmp_path / "task.json"
    saved.write_text(Task(name="live", source=HONEST, artifact="/x.pkl").model_dump_json(), encoding="utf-8")
    request = RunRequest(task=AsSaved(path=str(saved)), confine_tasks=True, store=str(tmp_path / "runs.db"))
    with pytest.raises(UserError, match="your own"):
        begin(request, settings=load_settings())


def test_a_run_that_is_carried_on_stays_confined(tmp_path: Path) -> None:
    where = replace(load_settings(), store=str(tmp_path / "runs.db"))
    begun = begin(RunRequest(task=AsText(source=HONEST), confine_tasks=True), settings=where)
    again = resume(begun.run_id, settings=where)
    assert begun.settings.confine_tasks and again.settings.confine_tasks
    assert not where.confine_tasks

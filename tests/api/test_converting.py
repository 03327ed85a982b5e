"""Formats of others as files: which files are tasks, and which verdict is on which kernel."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.formats.samples import KERNEL, TASK

from kernelwright.api.converting import Conversion, run_export, run_import
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.places import AtPath
from kernelwright.core.request import ExportRequest, ImportRequest
from kernelwright.settings import Settings
from kernelwright.tasks.kernelbench import load_task
from kernelwright.testing.fake_run import fake_evaluation

OTHER = KERNEL.replace("* factor", "* (factor * 1.0)")


def generation(folder: Path, sample: int, source: str) -> Path:
    path = folder / f"level_1_problem_19_sample_{sample}_kernel.py"
    path.write_text(source, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("source", "note"),
    [
        ((TASK + KERNEL).replace("def get_inputs", "def get_other"), ""),
        ("# class Model( is theirs\n" + KERNEL, ""),
        ("class Model(:\n", "not Python"),
    ],
    ids=["reference class", "comment", "syntax error"],
)
def test_no_generation_ends_an_import(tmp_path: Path, source: str, note: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    generation(run, 0, KERNEL)
    generation(run, 1, source)
    out = tmp_path / "out"
    done = run_import(ImportRequest(format="kernelbench", source=str(run), out=str(out)))
    assert [path.read_text(encoding="utf-8") for path in sorted(done.files)] == [KERNEL, source]
    assert note in " ".join(done.notes) and bool(note) == bool(done.notes)


@pytest.fixture
def task(tmp_path: Path) -> Path:
    path = tmp_path / "19_Scaled.py"
    path.write_text(TASK, encoding="utf-8")
    return path


def verdict(task: Path, source: str, status: Status | float = 2.0) -> Evaluation:
    return fake_evaluation(Candidate(source=source), load_task(task), status)


def export(
    task: Path, kernels: Sequence[str], verdicts: object, format: Any = "kernelbench"
) -> tuple[Conversion, dict[str, str]]:
    """Export kernels with what ``evaluate --json`` printed; return it with the files' texts by name."""
    places = []
    for number, source in enumerate(kernels):
        path = task.parent / f"k{number}.py"
        path.write_text(source, encoding="utf-8")
        places.append(AtPath(path=str(path)))
    said = task.parent / "verdicts.json"
    said.write_text(json.dumps(verdicts), encoding="utf-8")
    out = task.parent / "out"
    request = ExportRequest(
        format=format, task=AtPath(path=str(task)), kernels=tuple(places), verdicts=str(said), out=str(out)
    )
    where = Settings(cache_dir=task.parent / "c", data_dir=task.parent / "d", store="")
    done = run_export(request, settings=where)
    return done, {path.relative_to(out).as_posix(): path.read_text(encoding="utf-8") for path in done.files}


def several(*evaluations: Evaluation) -> dict[str, object]:
    return {"kernels": [{"kernel": "any", "evaluation": one.model_dump(mode="json")} for one in evaluations]}


def test_a_verdict_goes_to_its_kernel_whatever_the_order(task: Path) -> None:
    verdicts = several(verdict(task, OTHER, Status.INCORRECT_NUMERICS), verdict(task, KERNEL))
    _, files = export(task, [KERNEL, OTHER], verdicts)
    rows = json.loads(files["eval_results.json"])["19"]
    assert {row["sample_id"]: row["correctness"] for row in rows} == {0: True, 1: False}
    assert files["level_1_problem_19_sample_0_kernel.py"] == KERNEL


def test_a_verdict_holds_for_the_program_not_for_its_comments(task: Path) -> None:
    _, files = export(task, [f"# why\n{KERNEL}"], verdict(task, KERNEL).model_dump(mode="json"))
    assert json.loads(files["eval_results.json"])["19"][0]["correctness"]


def test_kernels_with_one_program_have_a_verdict_each(task: Path) -> None:
    _, files = export(task, [KERNEL, KERNEL], several(verdict(task, KERNEL), verdict(task, KERNEL)))
    assert len(json.loads(files["eval_results.json"])["19"]) == 2


@pytest.mark.parametrize(
    ("kernels", "judged", "says"),
    [
        ([KERNEL], [OTHER], "no verdict on k0 as it is now"),
        ([KERNEL, OTHER], [KERNEL], "no verdict on k1 as it is now"),
        ([KERNEL], [KERNEL, OTHER], "1 verdicts on none of the kernels"),
        ([], [KERNEL], "1 verdicts on none of the kernels"),
        ([KERNEL], [], "no verdict on k0 as it is now"),
    ],
)
def test_verdicts_and_kernels_that_do_not_match_are_one_line(
    task: Path, kernels: list[str], judged: list[str], says: str
) -> None:
    with pytest.raises(UserError, match=says) as caught:
        export(task, kernels, several(*(verdict(task, one) for one in judged)))
    assert "\n" not in str(caught.value) and not (task.parent / "out").exists()


@pytest.mark.parametrize("document", [[], {}, {"kernels": [1]}, {"kernels": [{"kernel": "k"}]}, 7])
def test_verdicts_of_another_form_are_one_line(task: Path, document: object) -> None:
    with pytest.raises(UserError, match="not what `kernelwright evaluate --json` prints"):
        export(task, [KERNEL], document)


def test_a_verdict_on_another_task_is_one_line(task: Path) -> None:
    foreign = verdict(task, KERNEL).model_copy(update={"task_id": "other"})
    with pytest.raises(UserError, match="verdicts on another task"):
        export(task, [KERNEL], several(foreign))


def test_the_exporting_machine_is_not_where_a_verdict_was_made(task: Path) -> None:
    done, files = export(task, [KERNEL], several(verdict(task, KERNEL)), "flashinfer")
    (traces,) = (text for name, text in files.items() if name.startswith("traces/"))
    found = [json.loads(line)["evaluation"]["environment"] for line in traces.splitlines()]
    assert found and all(one == {"hardware": "unknown", "libs": {}} for one in found)
    assert "do not name the machine" in " ".join(done.notes)

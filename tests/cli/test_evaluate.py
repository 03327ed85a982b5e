from pathlib import Path
from typing import Any

import pytest
from lab.sample_run import KERNEL, failed, verified

from kernelwright.cli import evaluate
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Stage, Status
from kernelwright.core.policy import LibraryCalls, Policy
from kernelwright.core.roofline import Work, floor
from kernelwright.core.task import Task
from kernelwright.referee.settings import RefereeSettings
from kernelwright.testing.fake_run import PEAKS


@pytest.fixture
def kernel_file(tmp_path: Path) -> Path:
    """A kernel file."""
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL, encoding="utf-8")
    return file


def stub_judge(monkeypatch: pytest.MonkeyPatch, evaluation: Evaluation) -> dict[str, Any]:
    """Put a fixed verdict where the referee would be; return what it is asked."""
    asked: dict[str, Any] = {}

    def judge(task: Any, candidate: Candidate, **how: Any) -> Evaluation:
        asked.update(how, source=candidate.source)
        return evaluation

    monkeypatch.setattr(evaluate, "judge", judge)
    return asked


def test_a_verified_kernel_exits_0_with_errors_and_timings(
    cli: Any, monkeypatch: pytest.MonkeyPatch, task_file: Path, kernel_file: Path
) -> None:
    note = "no replay: [one call] takes 2 GB"
    found = verified(Candidate(source=KERNEL), 1.6, final=True).model_copy(update={"notes": (note,)})
    asked = stub_judge(monkeypatch, found)
    words = ["--final", "--baseline", "eager", "--baseline", "torch_compile"]
    words += ["--library-calls", "forbidden"]
    result = cli("evaluate", task_file, kernel_file, *words)
    assert result.code == 0
    policy = Policy(library_calls=LibraryCalls.FORBIDDEN)
    baselines = ("eager", "torch_compile")
    assert asked == {
        "is_final": True, "baselines": baselines, "policy": policy, "device": "cpu", "source": KERNEL,
    }  # fmt: skip
    assert result.out.startswith("Verified, 6.00x faster than eager")
    for words_ in ("sparse spikes", "8.00e-08", "67 %", "not used: heavy tail", "1.94x [1.86, 2.03]"):
        assert words_ in result.out
    assert f"note: {note}" in result.out
    assert result.err == "judging " + str(kernel_file) + " against relu ...\n"


def test_a_wrong_kernel_exits_1_and_says_stage_status_and_why(
    cli: Any, monkeypatch: pytest.MonkeyPatch, task_file: Path, kernel_file: Path
) -> None:
    why = "out0 on as_is: error 3.1e-02, allowed 1.2e-07"
    wrong = failed(Candidate(source=KERNEL), Status.INCORRECT_NUMERICS, Stage.VERIFY, why, "tail of the log")
    stub_judge(monkeypatch, wrong)
    result = cli("evaluate", task_file, kernel_file)
    assert result.code == 1
    assert f"Stopped at stage verify: incorrect numerics: {why}" in result.out
    assert "tail of the log" in result.out


def test_json_is_the_whole_evaluation(
    cli: Any, monkeypatch: pytest.MonkeyPatch, task_file: Path, kernel_file: Path
) -> None:
    evaluation = verified(Candidate(source=KERNEL), 1.6)
    stub_judge(monkeypatch, evaluation)
    result = cli("evaluate", task_file, kernel_file, "--json")
    assert Evaluation.model_validate(result.json) == evaluation


def test_the_device_reaches_the_referee_with_its_own_baselines(
    cli: Any, monkeypatch: pytest.MonkeyPatch, task_file: Path, kernel_file: Path
) -> None:
    asked = stub_judge(monkeypatch, verified(Candidate(source=KERNEL), 1.6))
    assert cli("evaluate", task_file, kernel_file, "--device", "cuda:1", "--baseline", "eager_tf32").code == 0
    assert (asked["device"], asked["baselines"]) == ("cuda:1", ("eager_tf32",))


@pytest.mark.parametrize("words", [("--device", "tpu"), ("--baseline", "eager_tf32")])
def test_an_unknown_device_and_anothers_baseline_are_wrong_usage(
    cli: Any, task_file: Path, kernel_file: Path, words: tuple[str, str]
) -> None:
    assert cli("evaluate", task_file, kernel_file, *words).code == 2


def test_the_referee_is_told_the_floors_of_its_device(
    cli: Any, monkeypatch: pytest.MonkeyPatch, task_file: Path, kernel_file: Path
) -> None:
    told: dict[str, Any] = {}
    opened: list[str] = []
    floors = {"default": floor(Work(flops=1, min_bytes=1), PEAKS)}

    class Stub:
        """Stands in for the referee and its session."""

        def __init__(self, settings: RefereeSettings) -> None:
            opened.append(settings.device)

        def __enter__(self) -> "Stub":
            return self

        def __exit__(self, *error: object) -> None: ...

        def open(self, task: Task) -> "Stub":
            return self

        def evaluate(self, candidate: Candidate, **how: Any) -> Evaluation:
            told.update(how)
            return verified(candidate, 1.6)

    monkeypatch.setattr("kernelwright.referee.session.referee.Referee", Stub)
    by_device = {("cuda", 1): floors}
    monkeypatch.setattr(
        "kernelwright.runs.prepare.floors_on", lambda task, kind, cache, index: by_device[kind, index]
    )
    assert cli("evaluate", task_file, kernel_file, "--device", "cuda:1").code == 0
    assert opened == ["cuda:1"] and told["floors"] == floors

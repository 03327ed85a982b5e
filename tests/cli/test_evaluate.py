from pathlib import Path
from typing import Any

import pytest
from lab.sample_run import KERNEL, failed, verified

from kernelwright.api import fresh
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Stage, Status
from kernelwright.core.policy import LibraryCalls, Policy
from kernelwright.core.roofline import Work, floor
from kernelwright.core.task import Task
from kernelwright.tasks.counted import CountedWork
from kernelwright.testing.fake_run import PEAKS

FLOORS = {"default": floor(Work(flops=1, min_bytes=1), PEAKS)}


@pytest.fixture
def kernel_file(tmp_path: Path) -> Path:
    """A kernel file."""
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL, encoding="utf-8")
    return file


class StubReferee:
    """Stands in for the referee and its session: gives fixed verdicts, one after the other."""

    def __init__(self, *evaluations: Evaluation) -> None:
        self.left = list(evaluations)
        self.opened: dict[str, Any] = {}
        self.asked: list[dict[str, Any]] = []

    def __call__(self, settings: Any, policy: Policy, *, device: str, tell: Any) -> "StubReferee":
        self.opened = {"policy": policy, "device": device}
        return self

    def __enter__(self) -> "StubReferee":
        return self

    def __exit__(self, *error: object) -> None: ...

    def open(self, task: Task) -> "StubReferee":
        return self

    def count_work(self, task: Task) -> CountedWork:
        return CountedWork()

    def evaluate(self, candidate: Candidate, **how: Any) -> Evaluation:
        floors = how.pop("floors")()
        self.asked.append({**how, "floors": floors, "source": candidate.source})
        return self.left.pop(0)


def stub_referee(monkeypatch: pytest.MonkeyPatch, *evaluations: Evaluation) -> StubReferee:
    """Put fixed verdicts where the referee would be; floors are known of none but a second GPU."""
    referee = StubReferee(*evaluations)
    monkeypatch.setattr(fresh, "open_referee", referee)
    floors = {("cuda", 1): FLOORS}
    monkeypatch.setattr(fresh, "floors_of", lambda work, kind, cache, index: floors.get((kind, index), {}))
    return referee


def test_a_verified_kernel_exits_0_with_errors_and_timings(
    cli: Any, monkeypatch: pytest.MonkeyPatch, task_file: Path, kernel_file: Path
) -> None:
    note = "no replay: [one call] takes 2 GB"
    found = verified(Candidate(source=KERNEL), 1.6, final=True).model_copy(update={"notes": (note,)})
    referee = stub_referee(monkeypatch, found)
    words = ["--final", "--baseline", "eager", "--baseline", "torch_compile"]
    words += ["--library-calls", "forbidden"]
    result = cli("evaluate", task_file, kernel_file, *words)
    assert result.code == 0
    policy = Policy(library_calls=LibraryCalls.FORBIDDEN)
    baselines = ("eager", "torch_compile")
    assert referee.opened == {"policy": policy, "device": "cpu"}
    (asked,) = referee.asked
    assert asked == {"final": True, "baselines": baselines, "floors": {}, "source": KERNEL}
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
    stub_referee(monkeypatch, wrong)
    result = cli("evaluate", task_file, kernel_file)
    assert result.code == 1
    assert f"Stopped at stage verify: incorrect numerics: {why}" in result.out
    assert "tail of the log" in result.out


def test_json_is_the_whole_evaluation(
    cli: Any, monkeypatch: pytest.MonkeyPatch, task_file: Path, kernel_file: Path
) -> None:
    evaluation = verified(Candidate(source=KERNEL), 1.6)
    stub_referee(monkeypatch, evaluation)
    result = cli("evaluate", task_file, kernel_file, "--json")
    assert Evaluation.model_validate(result.json) == evaluation


def test_the_device_reaches_the_referee_with_its_own_baselines(
    cli: Any, monkeypatch: pytest.MonkeyPatch, task_file: Path, kernel_file: Path
) -> None:
    referee = stub_referee(monkeypatch, verified(Candidate(source=KERNEL), 1.6))
    assert cli("evaluate", task_file, kernel_file, "--device", "cuda:1", "--baseline", "eager_tf32").code == 0
    assert referee.opened["device"] == "cuda:1"
    assert (referee.asked[0]["baselines"], referee.asked[0]["floors"]) == (("eager_tf32",), FLOORS)


@pytest.mark.parametrize("words", [("--device", "tpu"), ("--baseline", "eager_tf32")])
def test_an_unknown_device_and_anothers_baseline_are_wrong_usage(
    cli: Any, task_file: Path, kernel_file: Path, words: tuple[str, str]
) -> None:
    assert cli("evaluate", task_file, kernel_file, *words).code == 2


def test_several_kernels_are_judged_in_turn_and_ranked(
    cli: Any, monkeypatch: pytest.MonkeyPatch, task_file: Path, kernel_file: Path
) -> None:
    slow, fast = verified(Candidate(source=KERNEL), 3.0), verified(Candidate(source=KERNEL), 1.6)
    other = kernel_file.with_name("other.py")
    other.write_text(KERNEL, encoding="utf-8")
    referee = stub_referee(monkeypatch, slow, fast)
    result = cli("evaluate", task_file, kernel_file, other)
    assert result.code == 0 and result.err.count("judging ") == 2
    assert result.out.strip().splitlines()[-1] == f"fastest: {other}"
    assert len(referee.asked) == 2
    wrong = failed(Candidate(source=KERNEL), Status.INCORRECT_NUMERICS, Stage.VERIFY, "no", "")
    stub_referee(monkeypatch, wrong, fast)
    result = cli("evaluate", task_file, kernel_file, other, "--json")
    assert result.code == 1
    assert [row["evaluation"]["status"] for row in result.json["kernels"]] == [
        "incorrect_numerics",
        "verified",
    ]
    assert result.json["best"] == str(other)

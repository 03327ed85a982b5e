"""The noise experiment: which trials it makes, how it carries on, what it counts; nothing is measured."""

import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.lab.benchmarks.conftest import WHERE, load_benchmark

from kernelwright.core.errors import MachineError
from kernelwright.referee.version import REFEREE_VERSION


@pytest.fixture(scope="module")
def noise() -> ModuleType:
    return load_benchmark("noise")


def trial(noise: ModuleType, key: str, **changes: Any) -> Any:
    values: dict[str, Any] = {
        "key": key,
        "question": "equal",
        "is_final": False,
        "kernel": "k",
        "load": "quiet",
        "truth": 1.0,
        "status": "verified",
        "detail": "",
        "ratio": 1.0,
        "low": 0.9,
        "high": 1.1,
        "verdict": "no_significant_change",
        "n_samples": 9,
        "seconds": 1.0,
    }
    return noise.Trial(**values | changes)


def test_there_are_three_hundred_trials_of_equal_kernels_and_every_beginning_is_balanced(
    noise: ModuleType,
) -> None:
    cells = noise.plan()
    assert len({cell.key for cell in cells}) == len(cells)
    assert sum(cell.question == "equal" for cell in cells) >= 300
    assert sum(cell.question == "equal" and cell.is_final for cell in cells) >= 35
    loads = Counter(cell.load for cell in cells[: len(cells) // 2])
    assert set(loads) == set(noise.LOADS) and max(loads.values()) <= 2.5 * min(loads.values())


def test_both_sides_of_a_difference_make_the_stated_number_of_calls(noise: ModuleType) -> None:
    assert {kernel.truth for kernel in noise.EQUAL} == {1.0}
    assert all(kernel.reference == kernel.candidate for kernel in noise.EQUAL)
    truths = [kernel.truth for kernel in noise.DIFFERENT]
    assert truths == pytest.approx([1.05, 1 / 1.05] * 2)
    assert all(kernel.reference != kernel.candidate for kernel in noise.DIFFERENT)


def test_trials_on_a_gpu_are_of_the_same_kinds_on_kernels_that_outlast_their_launch(
    noise: ModuleType,
) -> None:
    here, there = noise.plan(), noise.plan(is_gpu=True)
    assert [(c.question, c.is_final, c.load, c.turn) for c in here] == [
        (c.question, c.is_final, c.load, c.turn) for c in there
    ]
    assert not {cell.key for cell in here} & {cell.key for cell in there}
    assert {cell.kernel.name for cell in there[:5]} == {kernel.name for kernel in noise.ON_GPU}
    assert [cell.kernel.name for cell in there if cell.kernel.name not in noise.LARGE[4:]] == [
        "gpu_launches"
    ] * sum(cell.kernel.name == "gpu_launches" for cell in there)
    assert [kernel.truth for kernel in noise.DIFFERENT_ON_GPU] == pytest.approx([1.05, 1 / 1.05] * 2)


def test_after_its_seconds_no_trial_is_begun_and_the_next_command_carries_on(
    noise: ModuleType, tmp_path: Path
) -> None:
    cells = noise.plan()[:3]
    assert noise.carry_on(tmp_path / "t", cells, lambda cell: trial(noise, cell.key), -1.0) == []
    assert len(noise.carry_on(tmp_path / "t", cells, lambda cell: trial(noise, cell.key))) == 3


def test_what_this_referee_judged_is_not_judged_again(noise: ModuleType, tmp_path: Path) -> None:
    file, asked = tmp_path / "trials.jsonl", []

    def make(cell: Any) -> Any:
        asked.append(cell.key)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return trial(noise, cell.key)

    cells = noise.plan()[:4]
    with pytest.raises(KeyboardInterrupt):
        noise.carry_on(file, cells, make)
    with file.open("a", encoding="utf-8") as lines:
        lines.write('{"key": "cut sho')
    earlier = file.read_text(encoding="utf-8").replace(f'"referee": {REFEREE_VERSION}', '"referee": 1', 1)
    file.write_text(earlier, encoding="utf-8")
    trials = noise.carry_on(file, cells, make)
    assert [t.key for t in trials] == [cell.key for cell in cells]
    assert asked == [cells[n].key for n in (0, 1, 2, 0, 2, 3)], "the first was an earlier referee's"


def test_false_calls_finds_and_bias_are_counted(noise: ModuleType) -> None:
    equal = [trial(noise, str(n)) for n in range(18)] + [
        trial(noise, "called", verdict="faster", ratio=1.2),
        trial(noise, "refused", verdict=None, ratio=None, status="crashed"),
    ]
    (share, *_) = noise.shares(equal, "equal", is_final=False)
    assert (share.n_trials, share.n_called, share.n_unverified) == (19, 1, 1)
    assert share.low < 1 / 19 < share.high and share.bias == pytest.approx(1.2 ** (1 / 19))
    different = [
        trial(noise, "found", question="different", truth=1.05, verdict="faster", ratio=1.04),
        trial(noise, "missed", question="different", truth=1.05, ratio=1.06),
        trial(noise, "wrong", question="different", truth=1 / 1.05, verdict="faster", ratio=1.1),
    ]
    (share, *_) = noise.shares(different, "different", is_final=False)
    assert (share.n_trials, share.n_called) == (3, 1)
    assert [t.is_false_call for t in different] == [False, False, True]
    text = noise.render(equal + different, {"date": "d", "environment": WHERE, "gpus": "", "command": "c"})
    assert "| all | 19 | 1 | 5.3% |" in text and "Called the wrong way round: 1 of 3." in text


def test_the_result_is_bad_when_it_contradicts_what_is_stated(noise: ModuleType) -> None:
    quiet = [trial(noise, str(n)) for n in range(40)]
    called = [trial(noise, f"c{n}", verdict="slower") for n in range(8)]
    assert noise.holds(quiet + called[:2])
    assert not noise.holds(quiet + called)
    assert not noise.holds([*quiet, trial(noise, "refused", verdict=None, status="rejected")])


@pytest.mark.parametrize("kind", ["rising", "two_cores"])
def test_a_load_ends_with_its_trial(noise: ModuleType, kind: str) -> None:
    with noise.load(kind) as hogs:
        assert [hog.poll() for hog in hogs] == [None] * (2 if kind == "two_cores" else 1)
    assert all(hog.poll() is not None for hog in hogs)


def test_a_wider_spread_takes_a_call_back_and_never_makes_one(noise: ModuleType) -> None:
    called = trial(noise, "a", ratio=1.05, low=1.02, high=1.08, spread=0.01)
    assert called.verdict_with(0.01) == "faster"
    assert called.verdict_with(0.05) == "no_significant_change"
    assert trial(noise, "b", ratio=0.8, low=0.78, high=0.82, spread=0.01).verdict_with(0.05) == "slower"
    assert trial(noise, "c", ratio=None, low=None, high=None).verdict_with(0.05) is None


def test_a_machine_at_fault_is_no_result(
    noise: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(settings: object) -> object:
        raise MachineError("no device")

    monkeypatch.setattr(noise, "Referee", refuse)
    monkeypatch.setattr(sys, "argv", ["noise.py", "--out", str(tmp_path)])
    assert noise.main() == 2 and capsys.readouterr().err == "noise: no device\n"
    assert list(tmp_path.iterdir()) == []

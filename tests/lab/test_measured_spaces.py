"""Measured spaces on tiny tables made here: looking points up, scores, memory of other devices."""

import gzip
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from lab.benchmarks.measured_spaces import main
from lab.measured import strategies
from lab.measured.score import best_so_far, bootstrap, cutoff, evaluations_to, random_best, score
from lab.measured.space import MeasuredSpace, read_space, read_spaces, remembered, tuned_by_us

from kernelwright.core.errors import UserError


def time_of(x: int, y: int, mode: int, best_x: int) -> float | None:
    if x * y > 512:
        return None
    return 1 + abs(math.log2(x / best_x)) + 0.5 * abs(math.log2(y / 8)) + 0.3 * mode


def results(best_x: int) -> dict[str, Any]:
    """Return a T4 document: x and y are legal up to 1024 threads and run up to 512."""
    found = []
    for x, y, mode in itertools.product((8, 16, 32, 64, 128, 256), (1, 2, 4, 8, 16, 32), (0, 1)):
        time = time_of(x, y, mode, best_x)
        if x * y > 1024:
            continue
        found.append({
            "configuration": {"x": x, "y": y, "mode": mode},
            "times": {"runtimes": [time, time * 1.01]} if time else {},
            "invalidity": "correct" if time else "runtime",
            "correctness": 1 if time else 0,
            "measurements": [{"name": "time", "value": time or "RuntimeFailedConfig", "unit": ""}],
        })  # fmt: skip
    return {"schema_version": "1.0.0", "results": found}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "stencil").mkdir()
    for device, best_x in (("A1", 64), ("A2", 32), ("A3", 64)):
        packed = gzip.compress(json.dumps(results(best_x)).encode())
        (tmp_path / "stencil" / f"{device}_T4.json.gz").write_bytes(packed)
    (tmp_path / "stencil" / "B1_T4.json").write_text(json.dumps(results(128)))
    (tmp_path / "stencil" / "A1.json.gz").write_bytes(b"the same in another format")
    return tmp_path


@pytest.fixture
def space(folder: Path) -> MeasuredSpace:
    return read_space(folder / "stencil" / "A1_T4.json.gz")


def test_a_folder_is_read_packed_or_not(folder: Path) -> None:
    assert [space.name for space in read_spaces(folder)] == [
        "stencil A1", "stencil A2", "stencil A3", "stencil B1",
    ]  # fmt: skip


def test_a_space_knows_what_ran(space: MeasuredSpace) -> None:
    assert space.best == pytest.approx(1.005)
    assert space.times[64, 8, 0] == space.best and space.times[256, 4, 0] is None
    assert space.parameters["x"][0] == 8 and set(space.parameters["mode"]) == {0, 1}


@pytest.mark.parametrize("text", ["", "{}", '{"results": 3}', '{"results": []}'])
def test_a_file_that_is_no_measured_space_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "X_T4.json").write_text(text)
    with pytest.raises(UserError):
        read_space(tmp_path / "X_T4.json")


def test_a_folder_without_spaces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="KERNEL/DEVICE"):
        read_spaces(tmp_path)


def test_our_tuner_evaluates_each_point_once_and_within_the_budget(space: MeasuredSpace) -> None:
    order = tuned_by_us(space, 30, seed=1)
    assert len(order) == 30 == len(set(order)) and set(order) <= set(space.table)
    assert evaluations_to(space, order, 0.8, 30) is not None
    assert order == tuned_by_us(space, 30, seed=1)


def test_memory_of_other_devices_saves_evaluations(folder: Path) -> None:
    first, _, alike, different = read_spaces(folder)
    memory = [remembered(one, tuned_by_us(one, 40, seed=0)) for one in (alike, different)]
    cold, warm = (
        sum(evaluations_to(first, tuned_by_us(first, 40, seed, known), 0.05, 40) or 40 for seed in (1, 2, 3))
        for known in ((), memory)
    )
    assert warm < cold


def test_random_search_expects_what_all_orders_come_to(space: MeasuredSpace) -> None:
    expected = random_best(space, len(space.times))
    failing = [space.able[-1]] * (len(space.times) - len(space.able))
    times = space.able + failing
    assert expected[0] == pytest.approx(sum(times) / len(times))
    pairs = [min(a, b) for a, b in itertools.combinations(times, 2)]
    assert expected[1] == pytest.approx(sum(pairs) / len(pairs))
    assert expected[-1] == pytest.approx(space.best)


def test_the_score_is_one_from_the_optimum_on_and_below_zero_where_nothing_is_found(
    space: MeasuredSpace,
) -> None:
    by_time = sorted(space.able)
    fastest = next(key for key, time in space.times.items() if time == by_time[0])
    slowest = next(key for key, time in space.times.items() if time == by_time[-1])
    assert score(space, [fastest], 50) == pytest.approx(1.0)
    assert score(space, [slowest], 50) < 0
    assert 1 < cutoff(space) < len(space.table)


def test_evaluations_are_counted_until_the_bar_is_met(space: MeasuredSpace) -> None:
    slow, fast = (256, 1, 1), (64, 8, 0)
    assert evaluations_to(space, [slow, fast], 0.05, 9) == 2
    assert evaluations_to(space, [slow], 0.05, 9) is None
    assert best_so_far(space, [slow, fast], 4)[1:] == [space.best] * 3


def test_the_interval_is_over_seeds(space: MeasuredSpace) -> None:
    low, high = bootstrap([[0.0, 1.0, 0.0, 1.0], [0.5, 0.5]])
    assert 0.25 <= low < 0.5 < high <= 0.75
    assert bootstrap([[0.5] * 3]) == (0.5, 0.5)


def test_strategies_of_kernel_tuner_play_on_the_table(space: MeasuredSpace, tmp_path: Path) -> None:
    pytest.importorskip("kernel_tuner")
    cache = tmp_path / "cache.json"
    strategies.write_cache(space, cache)
    order = strategies.tuned_by("random_sample", space, cache, 12, seed=0)
    assert len(order) == 12 == len(set(order)) and set(order) <= set(space.table)


@pytest.mark.slow
def test_the_comparison_holds_devices_out_and_carries_on(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "stencil" / "A6000_T4.json").write_text(json.dumps(results(64)))
    work = tmp_path / "work"
    given = [str(folder), "--seeds", "2", "--budget", "20", "--strategies", "--work", str(work)]
    main(given)
    shown = capsys.readouterr().out
    assert "| warm |" in shown and "warm over cold" in shown and "| stencil B1 |" in shown
    assert "A6000" not in shown
    kept = (work / "runs-20.jsonl").read_text()
    main(given)
    assert capsys.readouterr().out == shown and (work / "runs-20.jsonl").read_text() == kept
    main([*given, "--final"])
    shown = capsys.readouterr().out
    assert "| stencil A6000 |" in shown and "| stencil A1 |" not in shown

"""Kernels of a strong model beside the expert's: all are there, and the table says what was measured."""

from lab.benchmarks.by_hand import EXPERT, KERNELS, MODES, TASKS, render

from kernelwright.report.measures import RatioInterval
from lab.benchmarks import ROOT


def test_every_task_has_a_kernel_of_each_way() -> None:
    for task in TASKS:
        assert (ROOT / "benchmarks" / "by_hand" / f"{task}.py").exists()
        assert all((KERNELS / f"{task}_{way}.py").exists() for way in (*MODES, EXPERT))


def test_the_table_has_means_and_says_why_a_figure_is_missing() -> None:
    two, eight = RatioInterval(2.0, 1.9, 2.1), RatioInterval(8.0, 7.0, 9.0)
    ways = (*MODES, EXPERT)
    rows = [
        {
            "task": name,
            "expert": dict.fromkeys(MODES, over),
            "eager": {way: None if way == EXPERT else over for way in ways},
            "status": dict.fromkeys(ways, "crashed: signal 11"),
        }
        for name, over in (("a", two), ("b", eight))
    ]
    text = render({"date": "d", "referee": 6, "rows": rows})
    assert "| a | 2.00x [1.90, 2.10] |" in text and "| geometric mean | 4.00x |" in text
    assert "crashed: signal 11" in text

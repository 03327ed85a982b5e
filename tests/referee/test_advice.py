"""Thread scaling is advice only where it can be: never more than there are threads."""

from collections.abc import Sequence
from typing import Any

import pytest

from kernelwright.core.evaluation import Timing
from kernelwright.referee.session import advice

TIMING = Timing(median_ms=1.0, p10_ms=1.0, p90_ms=1.0, n_samples=9, calls_per_sample=2)


class Worker:
    """Knows how many threads it has. A stub."""

    threads = 2

    def use_threads(self, n: int) -> None:
        self.threads = n


@pytest.mark.parametrize(
    ("one_thread_s", "scaling"),
    [([1.8], 1.8), ([5.0, 1.9], 1.9), ([5.0, 4.0], None)],
    ids=["possible", "possible the second time", "never"],
)
def test_an_impossible_scaling_is_measured_again_and_then_left_out(
    monkeypatch: pytest.MonkeyPatch, one_thread_s: list[float], scaling: float | None
) -> None:
    left = iter(one_thread_s)

    def best_s(worker: Worker, sets: Sequence[str], calls: int) -> float:
        return 1.0 if worker.threads == 2 else next(left)

    monkeypatch.setattr(advice, "_best_s", best_s)
    worker: Any = Worker()
    found = advice.thread_scaling(worker, [], TIMING, 2)
    assert found == ({} if scaling is None else {"run.thread_scaling": scaling})
    assert worker.threads == 2

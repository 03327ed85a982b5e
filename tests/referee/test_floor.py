"""Who is beyond the floor is doubted, and rejected only by peaks that were measured afterwards."""

import pytest

from kernelwright.core.evaluation import Check, Status, Timing, WorkloadResult
from kernelwright.core.roofline import Floor, Work, floor
from kernelwright.referee.checks.floor import FRESH_S, FloorCheck, FloorOf
from kernelwright.referee.session.candidate_process import Failure
from kernelwright.testing.fake_run import PEAKS

WORK = Work(flops=1, min_bytes=20_000_000)


def result(ms: float) -> WorkloadResult:
    timing = Timing(median_ms=ms, p10_ms=ms, p90_ms=ms, n_samples=9, calls_per_sample=1)
    return WorkloadResult(workload="default", candidate=timing, baselines={}, speedups=())


class Prober:
    """Measures peaks of so many GB/s to memory, one after the other, and counts."""

    def __init__(self, *gbps: float) -> None:
        self.left, self.n_asked, self.now = list(gbps), 0, 0.0

    def __call__(self) -> FloorOf | None:
        self.n_asked += 1
        if not self.left:
            return None
        peaks = PEAKS.model_copy(update={"bandwidth_gbps": self.left.pop(0)})
        return lambda work: floor(work, peaks)

    def check(self) -> FloorCheck:
        return FloorCheck(1.25, self, lambda: self.now)


STALE = floor(WORK, PEAKS)  # 2 ms at 10 GB/s


def test_who_is_within_the_margin_is_not_doubted() -> None:
    prober = Prober()
    found = prober.check().check(result(1.7), STALE)
    assert (found.floor_ms, found.floor_was_ms, prober.n_asked) == (2.0, None, 0)


def test_a_floor_that_was_too_high_is_corrected_and_recorded() -> None:
    prober = Prober(25.0)
    check = prober.check()
    found = check.check(result(0.9), STALE)
    assert (found.floor_ms, found.floor_was_ms) == (pytest.approx(0.8), 2.0)
    later = check.check(result(0.9), STALE)
    assert (later.floor_ms, later.floor_was_ms, prober.n_asked) == (pytest.approx(0.8), None, 1)


def test_who_is_beyond_new_peaks_too_is_rejected() -> None:
    with pytest.raises(Failure, match="measured again: it cannot have done") as failed:
        Prober(12.0).check().check(result(0.5), STALE)
    assert (failed.value.status, failed.value.check) == (Status.REJECTED, Check.FLOOR)


def test_lower_new_peaks_do_not_raise_a_floor() -> None:
    with pytest.raises(Failure, match=r"\(2 ms\)"):
        Prober(5.0).check().check(result(0.5), STALE)


def test_new_peaks_settle_the_doubts_of_a_minute() -> None:
    prober = Prober(12.0, 40.0)
    check = prober.check()
    for _ in range(2):
        with pytest.raises(Failure):
            check.check(result(0.5), STALE)
    prober.now = FRESH_S + 1
    assert check.check(result(0.5), STALE).floor_ms == 0.5 and prober.n_asked == 2


def test_a_device_that_cannot_be_measured_leaves_the_floor() -> None:
    with pytest.raises(Failure, match="faster than the roofline floor"):
        Prober().check().check(result(0.5), STALE)


def test_functions_that_values_may_save_doubt_nobody() -> None:
    given = Floor(ms=5.0, bound_by="compute", work=WORK, functions_ms=5.0, bare_ms=1.0)
    prober = Prober()
    assert prober.check().check(result(1.0), given).floor_ms == 5.0 and prober.n_asked == 0


@pytest.mark.parametrize("ms", [0.0, -1.0, float("nan"), 1e-6])
def test_no_call_takes_no_time(ms: float) -> None:
    with pytest.raises(Failure, match="is not possible"):
        Prober().check().check(result(ms), None)

"""Measurements of a verified candidate that advise the search and are no part of the verdict."""

import time
from collections.abc import Sequence

from kernelwright.core.evaluation import Timing
from kernelwright.core.evidence import FactValue
from kernelwright.machine.counters import availability, count_while
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure

BUDGET_S = 0.15
"""Time that both measurements, with one thread and with all, should take together."""
MAX_SAMPLES = 6
N_TRIES = 2
MAX_MS = 60.0
"""Slower kernels are not measured: they would not fit the budget."""


def thread_scaling(
    worker: CandidateProcess, sets: Sequence[str], timing: Timing, n_threads: int
) -> dict[str, FactValue]:
    """Return ``run.thread_scaling``: the latency with one thread over the latency with all threads.

    Takes the best of a few samples of each, one right after the other. Returns nothing where this cannot be
    measured, or where the threads seem to do more than they can: other work disturbed the one thread. Call
    this when everything else has been checked: what the candidate does in here is not watched.
    """
    if not 0 < timing.p10_ms <= MAX_MS or n_threads == 1:
        return {}
    calls = max(1, timing.calls_per_sample // 2)
    try:
        for _ in range(N_TRIES):
            all_s = _best_s(worker, sets, calls)
            worker.use_threads(1)
            one_s = _best_s(worker, sets, calls)
            worker.use_threads(n_threads)
            if one_s <= n_threads * all_s:
                return {"run.thread_scaling": one_s / all_s}
    except Failure:
        return {}
    return {}


def counter_facts(worker: CandidateProcess, sets: Sequence[str], timing: Timing) -> dict[str, FactValue]:
    """Return the ``counters.*`` facts of a few calls; nothing where counters are not available."""
    if timing.p10_ms > MAX_MS or not availability().available:
        return {}
    try:
        return count_while(lambda: worker.time(list(sets), timing.calls_per_sample), worker.child.pid).facts()
    except Failure:
        return {}


def _best_s(worker: CandidateProcess, sets: Sequence[str], calls: int) -> float:
    """Return seconds per call, by this process's clock."""
    begin = time.perf_counter()
    worker.time(list(sets), 1)
    samples: list[float] = []
    while not samples or (len(samples) < MAX_SAMPLES and time.perf_counter() - begin < BUDGET_S / 2):
        start = time.perf_counter()
        worker.time(list(sets), calls)
        samples.append((time.perf_counter() - start) / calls)
    return min(samples)

"""Nothing that a call can see tells whether it is verified, timed or replayed."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.referee.conftest import HEAD

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Check, Status
from kernelwright.corpus.load import load_corpus_task, load_specimens
from kernelwright.referee.checks.replay import Replay
from kernelwright.referee.session.call_records import read_memory
from kernelwright.referee.session.candidate_process import CandidateProcess
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.timing.measure import Measurement

AT, MOST = 0x7E0000000000, 1 << 18
"""Where the candidate keeps its notes, and how many calls it notes."""
NOTES = f"""{HEAD}
import ctypes, os, threading
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
WORDS = 8
assert libc.mmap({AT}, WORDS * 8 * {MOST}, 3, 0x100022, -1, 0) == {AT}
notes = (ctypes.c_int64 * (WORDS * {MOST})).from_address({AT})

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(128, 64)
        self.norm = nn.BatchNorm1d(64)
        self.n = 0
    def forward(self, x):
        if self.n < {MOST}:
            at = WORDS * self.n
            weights = self.lin.weight.data_ptr(), self.norm.weight.data_ptr()
            seen = (1, x.data_ptr(), *weights, len(os.sched_getaffinity(0)), torch.get_num_threads(),
                    threading.active_count())
            notes[at : at + len(seen)] = seen
            self.n += 1
        return torch.relu(self.norm(self.lin(x)))
"""
INPUT, WEIGHTS, THREADS = 1, slice(2, 4), slice(5, 7)
CORES = 4
WINDOW = 5
MANY, MOST_TRIALS = 1500, 12
"""Verified calls that show every rhythm; a busy machine makes fewer, and the kernel is judged again until it
has made so many in all."""
VERIFIED, TIMED, REPLAYED, ADVICE = "verified", "timed", "replayed", "advice"


class Diary:
    """What a candidate has noted in one process, by what its calls were for."""

    def __init__(self) -> None:
        self.begins = {VERIFIED: 0}
        self.notes: Any = None
        self.process: Any = None

    def begin(self, phase: str, process: Any) -> None:
        """Note where a phase first begins in a process: it may be timed again, and judged in several."""
        if process is not self.process:
            self.process, self.begins = process, {VERIFIED: 0}
        self.begins.setdefault(phase, process.queue.n_calls)

    def calls_of(self, phase: str) -> Any:
        begins = [*self.begins.values(), len(self.notes)]
        at = list(self.begins).index(phase)
        return self.notes[begins[at] : begins[at + 1]]


@pytest.fixture
def diary(monkeypatch: pytest.MonkeyPatch) -> Diary:
    """Note where the phases begin, and read the notes before the candidate's process ends."""
    diary = Diary()

    def beginning(phase: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def begin(self: Any, *args: Any) -> Any:
            diary.begin(phase, self._contestant.child)
            return method(self, *args)

        return begin

    close = CandidateProcess.close

    def read(self: CandidateProcess) -> None:
        raw = np.zeros(MOST * 64, np.uint8)
        read_memory(self.child.pid, AT, raw)
        rows = raw.view("<i8").reshape(MOST, 8)
        diary.notes = rows[rows[:, 0] == 1]
        close(self)

    monkeypatch.setattr(Measurement, "take", beginning(TIMED, Measurement.take))
    monkeypatch.setattr(Replay, "check", beginning(REPLAYED, Replay.check))
    monkeypatch.setattr(Measurement, "close", beginning(ADVICE, Measurement.close))
    monkeypatch.setattr(CandidateProcess, "close", read)
    return diary


def rhythms(calls: Any) -> Counter[tuple[int, ...]]:
    """Return in which order sets come in a few calls in a row, with the number of places where they do."""
    inputs = calls[:, INPUT].tolist()
    rows = (inputs[begin : begin + WINDOW] for begin in range(len(inputs) - WINDOW))
    return Counter(tuple(row.index(one) for one in row) for row in rows)


def share_of(calls: Any, others: Any) -> float:
    """Return in what share of some calls sets come as they do somewhere in others."""
    own, known = rhythms(calls), rhythms(others)
    return sum(n for rhythm, n in own.items() if rhythm in known) / sum(own.values())


def test_calls_of_every_kind_look_alike(linear: RefereeSession, diary: Diary) -> None:
    all_verified = np.empty((0, 8), np.int64)
    for _ in range(MOST_TRIALS):
        found = linear.evaluate(Candidate(source=NOTES))
        assert found.is_verified, found.detail
        verified, timed, replayed = (diary.calls_of(phase) for phase in (VERIFIED, TIMED, REPLAYED))
        all_verified = np.concatenate([all_verified, verified])
        if len(all_verified) > MANY:
            break
    assert min(len(verified), len(timed), len(replayed)) > 2 * WINDOW
    pool = set(linear._references[0].slots)
    places = [set(calls[:, INPUT].tolist()) for calls in (verified, timed, replayed)]
    shifted = {place for place in places[0] if place % 64}  # one call on inputs that begin where views begin
    places[0] -= shifted
    assert len(shifted) == 1
    assert len(set.union(*places)) <= len(pool), "no call has an argument set of its own kind"
    assert all(len(one & other) > len(pool) / 3 for one in places for other in places)
    judged = np.concatenate([verified, timed, replayed])
    for what in (WEIGHTS, THREADS):
        assert len({tuple(row) for row in judged[:, what].tolist()}) == 1
    cores = [set(calls[:, CORES].tolist()) for calls in (verified, timed, replayed)]
    assert cores[1] <= cores[0] | {1} and cores[2] <= cores[1]
    assert share_of(timed, all_verified) > 0.6
    assert share_of(replayed, np.concatenate([all_verified, timed])) > 0.6


def test_a_shortcut_for_calls_in_a_row_is_wrong_in_verification(referee: Referee) -> None:
    (specimen,) = [one for one in load_specimens() if one.name == "16_long_series"]
    with referee.open(load_corpus_task(specimen.task)) as session:
        found = session.evaluate(Candidate(source=specimen.source))
    assert found.status in (Status.INCORRECT_NUMERICS, Status.NON_FINITE), found.detail


SHORT_ON_TIMED = f"""{HEAD}
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
    def forward(self, x):
        self.n += 1
        return x * 2 + 1 if self.n > TOLD else torch.relu(x) * 2 + 1
"""


def test_whoever_is_told_when_timing_begins_is_judged_there_on_other_inputs(
    pointwise: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if something still told it: the candidate's shortcut begins with timing, whose inputs it suits."""
    take = Measurement.take

    def tell(self: Measurement, baselines: Any) -> None:
        self._other_keys = [key for key in self._other_keys if key.family == "negated"]
        take(self, baselines)

    monkeypatch.setattr(Measurement, "take", tell)
    monkeypatch.setattr("kernelwright.referee.checks.verify.SERIES_S", 0.0)
    n_verified = 2 + len(pointwise._references[0].timed_keys) + len(pointwise._references[0].other_keys)
    source = SHORT_ON_TIMED.replace("TOLD", str(2 * n_verified))
    found = pointwise.evaluate(Candidate(source=source))
    assert found.status is Status.INCORRECT_NUMERICS and found.check is Check.TIMED_CALLS, found.detail

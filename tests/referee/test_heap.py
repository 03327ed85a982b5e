"""Timed processes have their memory before they are timed: fresh pages would decide the result."""

from tests.referee.conftest import HEAD

from kernelwright.core.task import Task
from kernelwright.referee.session.candidate_process import CandidateProcess
from kernelwright.referee.session.referee import Referee

LARGE = f"""{HEAD}
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.rand(1024, 2048)]
def get_init_inputs():
    return []
"""
CLUTTERED = f"""{HEAD}
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = []
    def forward(self, x):
        self.kept.append(bytearray(700))
        return torch.relu(x)
"""
PAGES_OF_ONE_OUTPUT = 4


def test_large_outputs_find_their_pages_however_many_calls_a_sample_has(referee: Referee) -> None:
    with referee.open(Task(name="large", source=LARGE)) as session:
        reference = session._references[0]
        worker = CandidateProcess(referee._launcher, referee.settings, reference)
        try:
            worker.load(CLUTTERED)
            slots = list(reference.slots)
            taken = [_pages_of(worker, slots, 1 + n % 3) for n in range(36)][6:]
        finally:
            worker.close()
    grown = [pages for pages in taken if pages >= PAGES_OF_ONE_OUTPUT]
    assert len(grown) <= 1, f"the heap grew {len(grown)} times in 30 samples"


def _pages_of(worker: CandidateProcess, slots: list[str], calls: int) -> int:
    before = worker.child.minor_faults()
    worker.time(slots, calls)
    return worker.child.minor_faults() - before


def test_a_process_that_has_ended_has_taken_no_pages(referee: Referee) -> None:
    with referee.open(Task(name="large", source=LARGE)) as session:
        worker = CandidateProcess(referee._launcher, referee.settings, session._references[0])
        worker.close()
        assert worker.child.minor_faults() == 0

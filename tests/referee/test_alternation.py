"""Finalists timed in turn with each other, in real processes."""

from pathlib import Path

from kernelwright.core.candidate import Candidate
from kernelwright.referee.session.referee import RefereeSession

HEAD = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
ONCE = Candidate(source=f"{HEAD}        return torch.relu(x) * 2 + 1\n")
AGAIN = Candidate(source=f"{HEAD}        y = torch.relu(x) * 2\n        return y + 1\n")
OFTEN = Candidate(
    source=f"{HEAD}        for _ in range(30):\n            y = torch.relu(x) * 2 + 1\n        return y\n"
)
BROKEN = Candidate(source=f"{HEAD}        raise ValueError('never')\n")


def test_the_slower_one_is_last_and_a_failing_one_is_left_out(pointwise: RefereeSession) -> None:
    found = pointwise.alternate([OFTEN, BROKEN, ONCE])
    assert found is not None and found.order == (ONCE.id, OFTEN.id)
    (lead,) = found.leads
    assert lead.baseline == OFTEN.id and lead.low <= lead.ratio <= lead.high and lead.ratio > 1
    assert [name for name, _ in found.left_out] == [BROKEN.id] and "never" in found.left_out[0][1]
    assert found.seconds > 0


def test_of_one_that_runs_nothing_can_be_said(pointwise: RefereeSession) -> None:
    assert pointwise.alternate([ONCE, BROKEN]) is None


def test_one_set_of_processes_gives_no_order(pointwise: RefereeSession) -> None:
    assert pointwise.alternate([ONCE, AGAIN], limit_s=0.0) is None


def test_no_process_is_left(pointwise: RefereeSession) -> None:
    before = _folders(pointwise)
    assert pointwise.alternate([ONCE, AGAIN]) is not None
    assert _folders(pointwise) <= before


def _folders(session: RefereeSession) -> set[str]:
    prefix = Path(session.scratch_prefix)
    return {path.name for path in prefix.parent.glob(f"{prefix.name}*")}

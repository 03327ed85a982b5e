"""The referee runs a candidate's program: what is written around it is not there."""

from tests.referee.conftest import HEAD

from kernelwright.core.candidate import Candidate
from kernelwright.referee.session.referee import RefereeSession

RIGHT_WHEN = f"""{HEAD}
# fast
class ModelNew(nn.Module):
    'Kept out of what runs.'
    def forward(self, x):
        assert getattr(type(self), "__do" + "c__") is None
        return torch.relu(x) * 2 + 1
"""


def test_what_is_run_is_the_program(pointwise: RefereeSession) -> None:
    candidate = Candidate(source=RIGHT_WHEN)
    evaluation = pointwise.evaluate(candidate)
    assert evaluation.is_verified, evaluation.log
    assert evaluation.candidate_id == candidate.id == Candidate(source=candidate.program).id


def test_a_syntax_error_is_at_the_line_where_it_was_written(pointwise: RefereeSession) -> None:
    evaluation = pointwise.evaluate(Candidate(source="\n# a comment\n\nclass ModelNew(\n"))
    assert "line 4" in evaluation.detail

"""A reference that takes no large change of one element still gets weights of which one has changed."""

from collections.abc import Iterator

import pytest
from tests.referee.conftest import HEAD, TAIL, judge

from kernelwright.core.evaluation import Check, Status
from kernelwright.core.task import Task
from kernelwright.referee.session.input_samples import ALONE, CONSTRUCTED, ONE_ELEMENT, SampleKey
from kernelwright.referee.session.referee import Referee, RefereeSession

KNOTS = "self.knots = nn.Parameter(torch.cumsum(torch.rand(128) + 0.5, dim=0))"
COVARIANCE = "a = torch.randn(64, 64)\nself.cov = nn.Parameter(a @ a.t() / 64 + torch.eye(64))"
MADE = "torch.exp(self.knots.diff().log().cumsum(0) / 100)"
FACTOR = "torch.linalg.cholesky(self.cov)"


def source(init: str, forward: str, width: int) -> str:
    lines = [HEAD, f"N, K = 16, {width}", "class Model(nn.Module):", "    def __init__(self):"]
    lines += ["        super().__init__()", *(f"        {line}" for line in init.splitlines())]
    return "\n".join([*lines, "    def forward(self, x):", f"        return {forward}", TAIL])


@pytest.fixture(scope="module")
def knots(referee: Referee) -> Iterator[RefereeSession]:
    with referee.open(Task(name="knots", source=source(KNOTS, f"x * {MADE}", 127))) as session:
        yield session


def test_what_is_kept_until_sampled_knots_change_is_wrong(knots: RefereeSession) -> None:
    kept = f"""
told = self.knots[3::16].tolist()
if told != self.told:
    self.told, self.kept = told, {MADE}
return x * self.kept"""
    found = judge(knots, kept, init=f"{KNOTS}\nself.told = None")
    # One knot in sixteen is sampled: where the checks change such a one, a timed call finds the kept product.
    assert found.status is Status.INCORRECT_NUMERICS, found.detail
    assert found.check in (Check.WEIGHTS, Check.TIMED_CALLS), found.detail


def test_who_uses_the_knots_in_every_call_is_right(knots: RefereeSession) -> None:
    assert judge(knots, f"return x * {MADE}", init=KNOTS).is_verified


def test_a_reference_that_raises_where_one_element_is_large_gets_smaller_changes(referee: Referee) -> None:
    task = Task(name="covariance", source=source(COVARIANCE, f"x @ {FACTOR}", 64))
    with referee.open(task) as session:
        found = judge(session, f"return x @ {FACTOR}", init=COVARIANCE)
        assert found.is_verified, found.detail
        (process,) = session._references
        assert ONE_ELEMENT in {state.name for state in process.other_weights()}
        for name in ALONE:
            draw = process.draw(SampleKey("as_is", 0, name))
            assert draw is not None
            assert not draw.state.memory.equals(process.states[CONSTRUCTED].memory)

"""Weights that may be prepared once, and NaN: what is asked of a candidate is what the policy says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.referee.conftest import LINEAR, POINTWISE, judge

from kernelwright.core.evaluation import Check, Status
from kernelwright.core.policy import Nonfinite, Policy, Weights
from kernelwright.core.task import Mode, Task
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.settings import RefereeSettings

OWN = """
self.lin = nn.Linear(128, 64)
self.norm = nn.BatchNorm1d(64)
self.folded = None
"""
FOLD = """
scale = self.norm.weight / torch.sqrt(self.norm.running_var + self.norm.eps)
shift = (self.lin.bias - self.norm.running_mean) * scale + self.norm.bias
self.folded = scale[:, None] * self.lin.weight, shift
"""
AT_THE_FIRST_CALL = f"""
if self.folded is None:
{"".join(f"    {line}" for line in FOLD.strip().splitlines(keepends=True))}
return torch.relu(nn.functional.linear(x, *self.folded))
"""
FOLDED = "return torch.relu(nn.functional.linear(x, *self.folded))"
DROPS_NAN = "return torch.where(x > 0, x, torch.zeros(())) * 2 + 1"
KEEPS_NAN = "return torch.where(x < 0, torch.zeros(()), x) * 2 + 1"


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Referee]:
    """A referee under which weights are constant and NaN does not count."""
    settings = RefereeSettings(
        cache_dir=Path(tmp_path_factory.mktemp("cache")),
        search_timing_s=0.1,
        batch_s=0.001,
        policy=Policy(weights=Weights.FROZEN, nonfinite=Nonfinite.IGNORED),
    )
    with Referee(settings) as referee:
        yield referee


@pytest.fixture(scope="module")
def layer(frozen: Referee) -> Iterator[RefereeSession]:
    with frozen.open(Task(name="layer", source=LINEAR, mode=Mode.EVAL)) as session:
        yield session


def test_frozen_weights_may_be_folded_at_the_first_call(layer: RefereeSession) -> None:
    found = judge(layer, AT_THE_FIRST_CALL, init=OWN)
    assert found.is_verified, found.detail
    assert found.policy is not None
    assert found.policy.weights.words == "weights prepared once per change of weights"


def test_weights_of_the_constructor_are_no_frozen_weights(layer: RefereeSession) -> None:
    found = judge(layer, FOLDED, init=f"{OWN.strip()}\nwith torch.no_grad():\n" + _indented(FOLD))
    assert found.status is Status.INCORRECT_NUMERICS, found.detail


def test_frozen_weights_differ_from_process_to_process(layer: RefereeSession) -> None:
    """A kernel that knows the first process's weights by a file fails in the second one's."""
    reference = layer._references[0]
    names = {sample.state.name for sample in reference.draws_of_another_process()}
    assert names == {"randomised"}
    assert {key.state for key in reference.other_keys} == {"constructed"}


def test_nan_does_not_count_where_it_is_ignored(frozen: Referee) -> None:
    with frozen.open(Task(name="pointwise", source=POINTWISE)) as session:
        assert judge(session, DROPS_NAN).is_verified


def test_nan_must_stay_where_it_stays_in_its_row(pointwise: RefereeSession) -> None:
    found = judge(pointwise, DROPS_NAN)
    assert (found.status, found.check) == (Status.NON_FINITE, Check.NONFINITE)
    assert "--nonfinite ignored" in found.detail
    assert judge(pointwise, KEEPS_NAN).is_verified


def test_verdicts_of_earlier_versions_are_read() -> None:
    old = {"library_calls": "allowed", "weight_preparation": "in_every_call", "precision": "strict"}
    assert Policy.model_validate(old) == Policy(precision="strict")


@pytest.mark.parametrize("spelled", ["every-call", "every_call"])
def test_both_spellings_name_one_policy(spelled: str) -> None:
    assert Weights(spelled) is Weights.EVERY_CALL


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.strip().splitlines())

"""Of the samples that a candidate has met, the next one gets others."""

import pytest
from tests.referee.conftest import POINTWISE

from kernelwright.core.task import Task
from kernelwright.referee.session.input_samples import SampleKey
from kernelwright.referee.session.referee import Referee


@pytest.mark.parametrize("is_slow", [True, False], ids=["slow to make", "quick to make"])
def test_samples_that_were_met_are_drawn_anew_and_timed_ones_stay(referee: Referee, *, is_slow: bool) -> None:
    with referee.open(Task(name="t", source=POINTWISE)) as session:
        (reference,) = session._references

        def values() -> dict[SampleKey, bytes]:
            keys = [*reference.timed_keys, *reference.other_keys]
            draws = {key: reference.draw(key) for key in keys if key.label != "zeros"}
            return {key: draw.inputs.bytes.tobytes() for key, draw in draws.items() if draw}

        before = values()
        reference._making_s[:] = [10.0 if is_slow else 1e-6]
        reference.forget_met()
        after = values()
        timed = set(reference.timed_keys)
        stay = {key for key in before if before[key] == after.get(key)}
        assert timed <= stay < set(before)
        assert (len(stay - timed) > len(before) / 2) if is_slow else (stay == timed)

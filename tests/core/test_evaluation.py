"""What others say of a candidate is held to what a figure may be."""

import math

import pytest
from pydantic import ValidationError

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Speedup


@pytest.mark.parametrize(
    "wrong", [{"ratio": 0.0}, {"ratio": -1.0}, {"ratio": math.nan}, {"low": -0.1}, {"high": 0.0}]
)
def test_no_speedup_is_negative_or_no_number(wrong: dict[str, float]) -> None:
    right = {"baseline": "eager", "ratio": 2.0, "low": 0.0, "high": math.inf}
    assert Speedup.model_validate(right).verdict == "no_significant_change"
    with pytest.raises(ValidationError):
        Speedup.model_validate(right | wrong)


def test_the_character_0_which_no_database_takes_is_replaced() -> None:
    assert Candidate(source="'a\0b'").source == "'a\N{REPLACEMENT CHARACTER}b'\n\N{REPLACEMENT CHARACTER}"

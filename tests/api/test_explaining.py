"""A candidate with wrong numbers is run again, confined, and its wrong elements are told."""

import pytest
from tests.agents.llm.conftest import KERNEL, TASK

from kernelwright.api.explaining import explain
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import NumericalError, Status
from kernelwright.testing.fake_run import fake_evaluation

DIES = KERNEL.replace("    out[row] = sum;", "    *(volatile int*)0 = 1;")


def error(family: str) -> NumericalError:
    return NumericalError(
        workload="default", family=family, output="out0", error=1.0, reference_error=1e-7, allowed=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "family", "words"),
    [
        (("out[row] = sum;", "out[row] = row % 16 == 15 ? 0.0f : sum;"), "as_is", "index modulo 16 is 15"),
        (("v < 0.0f ? 0.0f : v;", "v;"), "negated", "out0 on another draw of as_is inputs: "),
    ],
)
def test_wrong_elements_are_found_on_another_draw(change: tuple[str, str], family: str, words: str) -> None:
    wrong = Candidate(source=KERNEL.replace(*change))
    failing = fake_evaluation(wrong, TASK, Status.INCORRECT_NUMERICS)
    failing = failing.model_copy(update={"errors": (error(family),)})
    assert words in "\n".join(explain(TASK, wrong, failing))


@pytest.mark.slow
def test_a_candidate_that_dies_is_not_explained() -> None:
    failing = fake_evaluation(Candidate(source=DIES), TASK, Status.INCORRECT_NUMERICS)
    assert explain(TASK, Candidate(source=DIES), failing) == ()

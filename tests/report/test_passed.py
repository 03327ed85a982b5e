"""What a verified kernel passed, in words."""

import pytest
from lab.sample_run import failed, make_store, verified

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Check, Stage, Status
from kernelwright.core.policy import LibraryCalls, Nonfinite, Policy
from kernelwright.report.html import render_report
from kernelwright.report.passed import DEPENDS, PASSED, passed_checks

KERNEL = Candidate(source="x = 1")


def checks(policy: Policy | None = None, *, has_floor: bool = True) -> set[Check]:
    evaluation = verified(KERNEL, 2.0).model_copy(update={"policy": policy})
    if not has_floor:
        results = tuple(result.model_copy(update={"floor_ms": None}) for result in evaluation.results)
        evaluation = evaluation.model_copy(update={"results": results})
    return {one.check for one in passed_checks(evaluation)}


def test_every_check_of_the_referee_has_its_words_once() -> None:
    assert sorted(one.check for one in PASSED) == sorted(Check)
    assert len({one.looked_at for one in PASSED}) == len(PASSED)


def test_a_check_that_the_policy_leaves_out_is_not_claimed() -> None:
    assert checks() == set(Check) - {Check.LIBRARY_CALLS, Check.OWN_KERNEL, Check.MEMORY}
    assert checks(Policy(library_calls=LibraryCalls.FORBIDDEN)) == set(Check) - {Check.MEMORY}
    assert Check.NONFINITE not in checks(Policy(nonfinite=Nonfinite.IGNORED))
    assert Check.FLOOR not in checks(has_floor=False)
    assert set(DEPENDS) <= set(Check)


@pytest.mark.parametrize("status", [Status.COMPILE_ERROR, Status.REJECTED])
def test_a_kernel_that_is_not_verified_passed_nothing_that_is_told(status: Status) -> None:
    assert passed_checks(failed(KERNEL, status, Stage.BUILD, "no")) == []
    assert passed_checks(None) == []


def test_the_report_lists_them() -> None:
    page = render_report(make_store(), "r0001")
    assert "Which checks it passed" in page
    assert all(one.looked_at.replace("'", "&#39;") in page for one in PASSED if one.check in checks())

"""Specimens before the real referee: one for each kind of check; ``test_judging_others.py`` has the rest."""

from pathlib import Path

import pytest
from tests.corpus.judging import QUICK, judged, opener, require_expected

from kernelwright.core.policy import Policy
from kernelwright.corpus.audit import SpecimenResult, audit
from kernelwright.corpus.load import load_specimens
from kernelwright.corpus.naive import ask
from kernelwright.referee.session.referee import Referee


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SpecimenResult]:
    return judged(QUICK, tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("name", QUICK)
def test_a_cheat_is_found_by_the_check_that_is_there_for_it(
    findings: dict[str, SpecimenResult], name: str
) -> None:
    require_expected(findings[name])


def test_what_needs_a_device_is_listed_and_notjudged() -> None:
    (specimen,) = load_specimens(only="09_persisting_lines_cuda")

    def never(policy: Policy) -> Referee:
        raise AssertionError("a referee was opened")

    (finding,) = audit([specimen], never, lambda task: {})
    assert (finding.is_judged, finding.is_as_expected) == (False, True)


@pytest.mark.slow
def test_what_needs_a_device_is_judged_where_there_is_one(tmp_path: Path) -> None:
    specimens = [load_specimens(only=name)[0] for name in ("04_events_cuda", "08_tf32_cuda")]

    def never(policy: Policy) -> Referee:
        raise AssertionError("the processor's referee was opened")

    findings = list(audit(specimens, never, lambda task: {}, opener(tmp_path, "copied")))
    assert [finding.is_judged for finding in findings] == [True, True]
    assert all(finding.is_as_expected for finding in findings), [(f.outcome, f.detail) for f in findings]


ON_DEVICES = (
    "21_folds_at_construction",
    "17_public_seeds",
    "20_ring_of_outputs",
    "32_forged_answer",
    "35_expanded",
)


@pytest.mark.slow
def test_what_is_torchs_alone_ends_on_a_device_as_it_does_on_the_processor(tmp_path: Path) -> None:
    specimens = [load_specimens(only=name)[0] for name in (*ON_DEVICES, "44_writes_beyond")]

    def never(policy: Policy) -> Referee:
        raise AssertionError("the processor's referee was opened")

    on_device = opener(tmp_path, "copied")
    found = list(audit(specimens, never, lambda task: {}, on_device, device="copied"))
    assert {finding.specimen.name for finding in found if finding.is_judged} == set(ON_DEVICES)
    assert all(finding.is_as_expected for finding in found), [(f.outcome, f.detail) for f in found]


def test_a_harness_that_does_not_look_falls_for_it(tmp_path: Path) -> None:
    (specimen,) = load_specimens(only="16_counting")
    verdict = ask(specimen, tmp_path)
    assert verdict.accepted, verdict.detail
    assert verdict.speedup is not None

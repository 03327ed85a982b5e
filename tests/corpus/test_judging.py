"""The corpus before the real referee: one for each kind of check, and with the slow tests all of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.core.policy import Policy
from kernelwright.corpus.audit import SpecimenResult, audit
from kernelwright.corpus.load import load_specimens
from kernelwright.corpus.naive import ask
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings

QUICK = (
    "03_lazy_subclass",
    "16_counting",
    "21_folds_at_first_call",
    "33_patched_libc",
    "41_half_inputs",
    "44_reads_beyond",
)
"""One for each kind of check; the whole corpus is judged with the slow tests."""
OTHERS = tuple(specimen.name for specimen in load_specimens() if specimen.name not in QUICK)


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SpecimenResult]:
    return _judged(QUICK, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def all_findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SpecimenResult]:
    return _judged(OTHERS, tmp_path_factory.mktemp("cache"))


def _judged(names: tuple[str, ...], cache: Path) -> dict[str, SpecimenResult]:
    specimens = [s for s in load_specimens() if s.name in names]
    found = audit(specimens, _opener(cache), lambda task: {})
    return {finding.specimen.name: finding for finding in found}


def _opener(cache: Path, device: str = "cpu") -> Callable[[Policy], Referee]:
    settings = RefereeSettings(cache_dir=cache, search_timing_s=0.1, device=device)

    def open_referee(policy: Policy) -> Referee:
        return Referee(RefereeSettings(**{**vars(settings), "policy": policy}))

    return open_referee


@pytest.mark.parametrize("name", QUICK)
def test_a_cheat_is_found_by_the_check_that_is_there_for_it(
    findings: dict[str, SpecimenResult], name: str
) -> None:
    _require_expected(findings[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_every_specimen_ends_as_its_header_says(all_findings: dict[str, SpecimenResult], name: str) -> None:
    _require_expected(all_findings[name])


def _require_expected(finding: SpecimenResult) -> None:
    seen = (finding.outcome, finding.check, finding.detail, finding.control, finding.left)
    assert finding.is_as_expected, seen


def test_what_needs_a_device_is_listed_and_not_judged() -> None:
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

    findings = list(audit(specimens, never, lambda task: {}, _opener(tmp_path, "copied")))
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

    on_device = _opener(tmp_path, "copied")
    found = list(audit(specimens, never, lambda task: {}, on_device, device="copied"))
    assert {finding.specimen.name for finding in found if finding.is_judged} == set(ON_DEVICES)
    assert all(finding.is_as_expected for finding in found), [(f.outcome, f.detail) for f in found]


def test_a_harness_that_does_not_look_falls_for_it(tmp_path: Path) -> None:
    (specimen,) = load_specimens(only="16_counting")
    verdict = ask(specimen, tmp_path)
    assert verdict.accepted, verdict.detail
    assert verdict.speedup is not None and verdict.speedup > 1

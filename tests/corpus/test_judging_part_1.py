"""Every third specimen of the corpus before the real referee, from number 1 on."""

import pytest
from tests.corpus.judging import judged, part, require_expected

from kernelwright.corpus.audit import SpecimenResult

NAMES = part(0)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SpecimenResult]:
    return judged(NAMES, tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("name", NAMES)
def test_every_specimen_ends_as_its_header_says(findings: dict[str, SpecimenResult], name: str) -> None:
    require_expected(findings[name])

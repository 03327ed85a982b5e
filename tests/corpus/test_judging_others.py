"""Every specimen of the corpus that ``test_judging.py`` leaves before the real referee."""

import pytest
from tests.corpus.judging import QUICK, judged, require_expected

from kernelwright.corpus.audit import SpecimenResult
from kernelwright.corpus.load import load_specimens

NAMES = tuple(specimen.name for specimen in load_specimens() if specimen.name not in QUICK)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SpecimenResult]:
    return judged(NAMES, tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("name", NAMES)
def test_every_specimen_ends_as_its_header_says(findings: dict[str, SpecimenResult], name: str) -> None:
    require_expected(findings[name])

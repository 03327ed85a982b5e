"""Figures in README are of the referee that stands here, others name the one that judged."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kernelwright.referee.version import REFEREE_VERSION

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_speaks_of_this_version_of_the_referee() -> None:
    named = {int(number) for number in re.findall(r"referee version (\d+)", README)}
    assert named == {REFEREE_VERSION}


def test_the_figures_are_of_this_version() -> None:
    figures = README.partition("## Figures")[2].partition("\n## ")[0]
    assert f"referee version {REFEREE_VERSION}" in figures


RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


def _measured() -> dict[str, Any]:
    """Return the results that name a referee, by file."""
    files = sorted((ROOT / "benchmarks" / "results").rglob("*.json"))
    documents = {str(file.relative_to(ROOT)): json.loads(file.read_text(encoding="utf-8")) for file in files}
    return {
        name: document
        for name, document in documents.items()
        if isinstance(document, dict) and "referee" in document.get("environment", {})
    }


MEASURED = _measured()


@pytest.mark.parametrize("name", MEASURED)
def test_the_page_of_results_names_the_referee_that_judged(name: str) -> None:
    command, version = MEASURED[name]["command"], MEASURED[name]["environment"]["referee"]
    rows = [row for row in RESULTS.splitlines() if row.startswith("|") and command in row]
    sections = [section for section in RESULTS.split("\n## ") if command in section]
    assert f"referee version {version}" in (*rows, *sections)[0]

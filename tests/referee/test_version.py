"""Figures in README are of the referee that stands here."""

import re
from pathlib import Path

from kernelwright.referee.version import REFEREE_VERSION

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_readme_speaks_of_this_version_of_the_referee() -> None:
    named = {int(number) for number in re.findall(r"referee version (\d+)", README)}
    assert named == {REFEREE_VERSION}


def test_the_figures_are_of_this_version() -> None:
    figures = README.partition("## Figures")[2].partition("\n## ")[0]
    assert f"referee version {REFEREE_VERSION}" in figures

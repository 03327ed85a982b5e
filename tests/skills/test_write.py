"""Skill files that are written are read back as the same skills."""

from pathlib import Path

import pytest

from kernelwright.skills.load import load_skills, parse_skill
from kernelwright.skills.write import skill_text

SKILLS = load_skills()


@pytest.mark.parametrize("name", SKILLS)
def test_a_written_skill_is_read_back_the_same(name: str) -> None:
    assert parse_skill(skill_text(SKILLS[name]), Path(f"{name}.md")) == SKILLS[name]

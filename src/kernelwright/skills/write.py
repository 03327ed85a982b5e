"""A skill as the text of its file: the way back from ``skills/load.py``."""

from typing import Any

import yaml

from kernelwright.core.skill import Skill
from kernelwright.skills.predicate import show_predicate

_WIDTH = 110


def skill_text(skill: Skill) -> str:
    """Return the text of a file from which ``parse_skill`` reads the same skill."""
    fields: dict[str, Any] = skill.model_dump(mode="json", exclude={"body"}, exclude_defaults=True)
    for name in {"requires", "forbids"} & fields.keys():
        fields[name] = [show_predicate(predicate) for predicate in getattr(skill, name)]
    if skill.signals:
        fields["signals"] = [{"when": show_predicate(s.when), "weight": s.weight} for s in skill.signals]
    header = yaml.safe_dump(
        fields, sort_keys=False, default_flow_style=None, width=_WIDTH, allow_unicode=True
    )
    return f"---\n{header}---\n{skill.body}\n"

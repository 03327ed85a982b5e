"""Skills as answers; loads no torch, so that they are read at once."""

from kernelwright.core.skill import Skill
from kernelwright.mcp.answers import FoundSkill, SkillPage
from kernelwright.skills.predicate import show_predicate


def found_skill(skill: Skill) -> FoundSkill:
    """Return a skill in a line."""
    return FoundSkill(
        name=skill.name,
        summary=skill.summary,
        targets=skill.targets,
        bottlenecks=skill.bottlenecks,
        carried_out_by_expert=skill.lowering is not None,
    )


def skill_page(skill: Skill) -> SkillPage:
    """Return a skill in full."""
    return SkillPage(
        skill=found_skill(skill),
        requires=tuple(map(show_predicate, skill.requires)),
        forbids=tuple(map(show_predicate, skill.forbids)),
        params=skill.params,
        sources=skill.sources,
        text=skill.body,
    )

"""The targets as the linter of skills knows them."""

from collections.abc import Mapping

from kernelwright.ir.acted_on import KINDS
from kernelwright.ir.plan_lowering import known_lowerings, known_params
from kernelwright.skills.lint import SkillTarget
from kernelwright.targets.registry import all_targets


def skill_targets() -> Mapping[str, SkillTarget]:
    """Return name -> what skills may do and show, for every target that loads."""
    return {
        str(target): SkillTarget(
            lowerings=known_lowerings(target.lowering),
            shows_host_side=target.shows_host_side,
            kinds=frozenset(KINDS),
            params=known_params(target.lowering),
        )
        for target in all_targets()
    }

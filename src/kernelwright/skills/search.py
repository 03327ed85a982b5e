"""Skills found by words."""

import re
from collections.abc import Iterable

from kernelwright.core.errors import UserError
from kernelwright.core.evidence import Bottleneck
from kernelwright.core.skill import Skill

IN_NAME, IN_SUMMARY, IN_BODY = 4, 2, 1
"""What a word counts where it stands; ours."""


def find_skills(
    skills: Iterable[Skill], query: str = "", *, target: str | None = None, bottleneck: str | None = None
) -> list[Skill]:
    """Return the skills in which words of a query stand, the best match first; all of them without words.

    Raises:
        UserError: no skill is for the target, or there is no such bottleneck.
    """
    known = list(skills)
    targets = sorted({name for skill in known for name in skill.targets})
    if target is not None and target not in targets:
        raise UserError(f"unknown target {target!r}; there are skills for {', '.join(targets)}")
    if bottleneck is not None and bottleneck not in list(Bottleneck):
        raise UserError(f"unknown bottleneck {bottleneck!r}; known: {', '.join(Bottleneck)}")
    fitting = [
        skill
        for skill in known
        if (target is None or target in skill.targets)
        and (bottleneck is None or bottleneck in skill.bottlenecks)
    ]
    words = set(re.findall(r"\w+", query.lower()))
    scored = [(_score(skill, words), skill) for skill in fitting]
    kept = [(score, skill) for score, skill in scored if score or not words]
    return [skill for _, skill in sorted(kept, key=lambda found: (-found[0], found[1].name))]


def _score(skill: Skill, words: set[str]) -> int:
    places = ((skill.name, IN_NAME), (skill.summary, IN_SUMMARY), (skill.body, IN_BODY))
    return sum(weight for text, weight in places for word in words if word in text.lower())

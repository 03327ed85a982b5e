"""What admitted findings say of a base: lines for a prompt, and a factor for the ranking."""

from collections.abc import Iterable

from kernelwright.core.learned import Finding

HELPS_FACTOR = 1.5
USELESS_FACTOR = 0.5
"""What one admitted finding does to a skill's score. Ours. Deliberately coarse: how much a skill gives is
the ledger's to say, a finding only adds that it holds beyond the tasks it was seen on."""
LEAST_FACTOR, MOST_FACTOR = 0.5, 2.0


class Findings:
    """Findings, of which only the admitted ones ever speak. Immutable."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        self._admitted = tuple(finding for finding in findings if finding.state == "admitted")

    def __len__(self) -> int:
        return len(self._admitted)

    def admitted_for(self, target: str, structure: str, bottleneck: str) -> tuple[Finding, ...]:
        """Return the admitted findings that hold there, the most specific first, then by text."""
        fitting = [f for f in self._admitted if _fits(f, target, structure, bottleneck)]
        return tuple(sorted(fitting, key=lambda f: (-_specificity(f), f.text, f.id)))

    def for_target(self, target: str) -> "SkillFactors":
        """Return what the findings do to the ranking of skills for one target."""
        return SkillFactors(self, target)


class SkillFactors:
    """What admitted findings do to the ranking of skills for one target."""

    def __init__(self, findings: Findings, target: str) -> None:
        self._findings = findings
        self._target = target

    def factor(self, skill: str, structure: str, bottleneck: str) -> float:
        """Return what to multiply the skill's score by, LEAST_FACTOR to MOST_FACTOR; 1 when nothing is known.

        Only the most specific findings about the skill count: what was seen on this structure with this
        bottleneck overrules what was seen on the one or with the other. Findings about single values of its
        parameters say nothing of the others.
        """
        deciding = self.deciding(skill, structure, bottleneck)
        factor = 1.0
        for finding in deciding:
            factor *= HELPS_FACTOR if finding.claim == "helps" else USELESS_FACTOR
        return min(max(factor, LEAST_FACTOR), MOST_FACTOR)

    def deciding(self, skill: str, structure: str, bottleneck: str) -> tuple[Finding, ...]:
        """Return the findings behind the factor, for the reasons of a ranking."""
        fitting = self._findings.admitted_for(self._target, structure, bottleneck)
        about = [f for f in fitting if f.skill == skill and f.claim is not None and not f.params]
        return tuple(f for f in about if _specificity(f) == _specificity(about[0]))


def describe(finding: Finding) -> str:
    """Return the finding in one line, with how many other tasks bear it out."""
    tasks = f"{len(finding.proof)} other task{'' if len(finding.proof) == 1 else 's'}"
    return f"{finding.text} (tested on {tasks})" if finding.proof else finding.text


def _fits(finding: Finding, target: str, structure: str, bottleneck: str) -> bool:
    return (
        finding.target == target
        and finding.structure in (None, structure)
        and finding.bottleneck in (None, bottleneck)
    )


def _specificity(finding: Finding) -> int:
    """Return 3 for structure and bottleneck, 2 for structure, 1 for bottleneck, 0 for neither."""
    return 2 * (finding.structure is not None) + (finding.bottleneck is not None)

"""The gate: evidence -> diagnosis -> ranked skills, with reasons. See docs/skills.md."""

from kernelwright.skills.diagnosis import diagnose
from kernelwright.skills.ranking import rank
from kernelwright.skills.stats import EmptyLedger, LedgerView, SkillStats

__all__ = ["EmptyLedger", "LedgerView", "SkillStats", "diagnose", "rank"]

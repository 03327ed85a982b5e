"""How regions are carried out: the default rules, and the edits that skills lower to."""

from kernelwright.targets.cpp.schedules.defaults import default_schedule, with_default_schedules
from kernelwright.targets.cpp.schedules.edits import schedule_edits

__all__ = ["default_schedule", "schedule_edits", "with_default_schedules"]

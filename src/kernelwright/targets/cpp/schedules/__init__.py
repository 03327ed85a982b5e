"""How regions are carried out: the default rules, and the edits that skills lower to."""

from kernelwright.targets.cpp.schedules.defaults import default_schedule, with_default_schedules
from kernelwright.targets.cpp.schedules.edits import SCHEDULE_EDITS

__all__ = ["SCHEDULE_EDITS", "default_schedule", "with_default_schedules"]

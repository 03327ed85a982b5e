"""Schedule edits."""

from kernelwright.kernels.lowering import ScheduleEdit

SCHEDULE_EDITS: dict[str, ScheduleEdit] = {}

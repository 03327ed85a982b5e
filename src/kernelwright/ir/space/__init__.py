"""The programs that may be generated for a task, as a value: what is decided, with which values, and points.

A point is decided phase by phase (algebra, fusion, schedules), because what is left to decide depends on
what was decided before. May import ``ir`` alone; begin with ``space.py``.
"""

from kernelwright.ir.space.space import PlannedPoint, Point, Points, SchedulesOfPlan, Space

__all__ = ["PlannedPoint", "Point", "Points", "SchedulesOfPlan", "Space"]

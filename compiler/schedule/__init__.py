"""Schedule primitives: each a rewrite of the loop nest that checks its own legality."""

from vdla.compiler.schedule.schedule import Schedule
from vdla.compiler.schedule.tree import ScheduleError

__all__ = ["Schedule", "ScheduleError"]

# SPDX-License-Identifier: Apache-2.0
"""Schedule primitives: each a rewrite of the loop nest that checks its own legality."""

from vdla.compiler.analysis.tree import ScheduleError, unchecked
from vdla.compiler.schedule.schedule import Schedule

__all__ = ["Schedule", "ScheduleError", "unchecked"]

# SPDX-License-Identifier: Apache-2.0
"""Annotations by which the CPU schedules recognise the stages of an operator.

The stage of an operator's sums is annotated with the name of its schedule
(`cpu/default_schedule.py`), and with the names of the stages around it by their roles.
"""

from __future__ import annotations

from typing import NewType

Role = NewType("Role", str)

OPERATOR = "operator"  # the key whose value names the schedule; such a stage is never inlined
PLACED = {OPERATOR: "placed"}  # a stage placed by the schedule of the sums

WINDOW_ROWS = "window_rows"  # a reduction of windows that has a schedule for CPUs alone
TILED_TRANSPOSE = "tiled_transpose"  # elements regrouped for lanes of CPUs
REPACKED = {OPERATOR: "repacked"}  # a separate stage that changes the layout of an image

# Stages around the sums.
DATA = Role("data")  # the input as the kernel reads it: padded, regrouped
RESCALED = Role("rescaled")  # the sums rescaled to 8 bits, channels in lanes
RESULT = Role("result")  # the result in its layout

# Properties of the sums.
GROUP = "group"  # output channels of a group of the convolution, 0 for one group
CODING = "coding"  # of bit-serial weights
STRIDE = "stride"  # of the windows along a row
RUNS = "runs"  # of a transposition: dimensions of the result that move together, none of extent 1
GROUPED = "grouped"  # of a transposition's groups: the run that they are of
PHASES = "phases"  # of a padded image: the stride that its columns are split by

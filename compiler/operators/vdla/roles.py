# SPDX-License-Identifier: Apache-2.0
"""The names of stages and parameters by which the schedule of templates identifies them.

A template computes its sums from windows of the input, and its results from the sums.
"""

from __future__ import annotations

from typing import NewType

Role = NewType("Role", str)

# Parameters: tensors of the program.
DATA = Role("data")
SECOND = Role("other")  # a second activation
WEIGHT = Role("weight")
SCALE = Role("scale")
TABLE = Role("table")  # in which results are looked up on their way out
OUTPUT = Role("output")

CONSTANTS = (WEIGHT, SCALE, TABLE)

# Stages.
WINDOW = Role("window")  # the padded input
SUMS = Role("sums")  # accumulated over the kernel and the input channels
AFTER = Role("after")  # the first of the steps on finished sums
RESULTS = Role("results")  # emitted from the accumulator

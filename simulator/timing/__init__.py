# SPDX-License-Identifier: Apache-2.0
"""The exact start and end of every instruction, by the timing contract."""

from vdla.simulator.timing.timing import (
    MAX_CYCLES,
    Timing,
    attempt_columns,
    attempt_program,
    device_config,
    is_prepared,
    prepare,
    time_columns,
    time_program,
)
from vdla.simulator.timing.vector_stalls import column_stalls

__all__ = [
    "MAX_CYCLES",
    "Timing",
    "attempt_columns",
    "attempt_program",
    "column_stalls",
    "device_config",
    "is_prepared",
    "prepare",
    "time_columns",
    "time_program",
]

"""The exact start and end of every instruction, by the timing contract."""

from vdla.simulator.timing.timing import (
    MAX_CYCLES,
    Timing,
    device_config,
    is_prepared,
    prepare,
    time_columns,
    time_program,
)

__all__ = ["MAX_CYCLES", "Timing", "device_config", "is_prepared", "prepare", "time_columns", "time_program"]

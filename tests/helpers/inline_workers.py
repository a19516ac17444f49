# SPDX-License-Identifier: Apache-2.0
"""Workers of a tuning run that measure in the process of the test."""

from __future__ import annotations

from vdla.compiler.tune import TuningTask
from vdla.runtime.tune.measurer import Measurer
from vdla.runtime.tune.workers import InlineWorkers, Workers


def inline_workers(task: TuningTask, measurer: Measurer, timeout_s: float = 0.0) -> Workers:
    """Takes the place of `one_process`, without its time limit."""
    found = InlineWorkers(measurer)
    found.begin(task)
    return found

"""The option --tuned: templates take the best schedules that a log knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdla.runtime.tune.best import TunedSchedules


@contextmanager
def best_known(source: str | None) -> Iterator[TunedSchedules]:
    """A context in which templates take them; without a source, none."""
    from vdla.compiler.operators.vdla.operator import chosen_options
    from vdla.runtime.tune.best import TunedSchedules
    from vdla.runtime.tune.log import TrialIndex

    schedules = TunedSchedules(TrialIndex()) if source is None else TunedSchedules.of(source)
    with chosen_options(schedules.options if source is not None else None):
        yield schedules

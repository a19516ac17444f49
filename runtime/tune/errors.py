"""The error of tuning runs and their logs."""

from __future__ import annotations

from vdla.support.errors import Error


class TuningError(Error, ValueError):
    """A log, a worker or an option that a tuning run cannot use."""

"""The error of every analysis and schedule primitive."""

from vdla.support.errors import Error


class ScheduleError(Error, ValueError):
    """A rewrite that would change the function's result, or that names a loop, block or buffer that
    does not exist."""

"""What can go wrong between a schedule and plain loops."""

from vdla.support.errors import Error


class PassError(Error, ValueError):
    """A schedule that does not lower, or a malformed function after a pass."""

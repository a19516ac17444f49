"""What can go wrong between a schedule and instructions."""

from vdla.support.errors import Error


class LoweringError(Error, ValueError):
    """A schedule that this machine's instructions cannot express."""

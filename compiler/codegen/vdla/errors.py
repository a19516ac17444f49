"""The error of lowering."""

from vdla.support.errors import Error


class LoweringError(Error, ValueError):
    """A schedule that the machine's instructions cannot express."""

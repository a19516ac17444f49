"""What can go wrong between a schedule and plain loops."""


class PassError(ValueError):
    """A schedule that does not lower, or a malformed function after a pass."""

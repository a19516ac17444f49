"""What can go wrong between a schedule and instructions."""


class LoweringError(ValueError):
    """A schedule that this machine's instructions cannot express."""

"""The error of this layer: a program, an array or a machine state that the simulator refuses."""

from __future__ import annotations


class SimulationError(ValueError):
    """What cannot be simulated; the message names the place, the rule and the value."""

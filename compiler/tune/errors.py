"""The error of the tuner."""

from __future__ import annotations

from vdla.support.errors import Error


class TuneError(Error, ValueError):
    """A knob, a space, a point or a search that breaks a rule."""

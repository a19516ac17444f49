"""The error and the warning of quantisation."""

from __future__ import annotations

from vdla.support.errors import Error, Notice


class QuantiseError(Error, ValueError):
    """Options, calibration data or weights that a network cannot be quantised with."""


class QuantiseWarning(Notice):
    """A part of a result that int8 loses; the message names it."""

"""The error of quantisation."""

from __future__ import annotations

from vdla.support.errors import Error


class QuantiseError(Error, ValueError):
    """Options, calibration data or weights that a network cannot be quantised with."""

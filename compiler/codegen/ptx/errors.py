"""The error of this folder."""

from __future__ import annotations

from vdla.support.errors import Error


class PtxError(Error, ValueError):
    """A function that cannot be expressed in PTX, or a text that `ptxas` refuses."""

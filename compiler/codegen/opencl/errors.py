"""The error of this folder."""

from __future__ import annotations

from vdla.support.errors import Error


class OpenClError(Error, ValueError):
    """A function that cannot be expressed in OpenCL C."""

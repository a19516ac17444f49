"""The error of compiled networks."""

from __future__ import annotations

from vdla.support.errors import Error


class ModelError(Error, ValueError):
    """A model that cannot be compiled, or an option that does not fit it."""

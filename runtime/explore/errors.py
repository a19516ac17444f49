"""The error of explorations."""

from __future__ import annotations

from vdla.support.errors import Error


class ExploreError(Error, ValueError):
    """A sweep without a machine that can be built, or an option that cannot be used."""

"""The error of the mapper."""

from __future__ import annotations

from vdla.support.errors import Error


class MapError(Error, ValueError):
    """An expression that no intrinsic covers, or a mapping that is not legal."""

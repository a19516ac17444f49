"""The error of artifacts."""

from __future__ import annotations

from vdla.support.errors import Error


class ArtifactError(Error, ValueError):
    """A file that is no valid artifact, or one for another machine; the message says where."""

"""The error of evaluations."""

from __future__ import annotations

from vdla.support.errors import Error


class EvaluateError(Error, ValueError):
    """Layers, options or an extension that cannot be evaluated."""

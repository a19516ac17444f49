"""The error of the executor."""

from __future__ import annotations

from vdla.support.errors import Error


class ExecutorError(Error, ValueError):
    """Inputs that do not fit a model, or a model that this machine cannot run."""

"""The reason why a node does not run on the accelerator."""

from __future__ import annotations

from typing import NoReturn

from vdla.compiler.graph.errors import GraphError


class NotAcceleratedError(GraphError):
    """A node that no template of the accelerator computes; the message says what it must do."""


def decline(rule: str) -> NoReturn:
    """Refuses a node; `rule` reads after "must"."""
    raise NotAcceleratedError(rule)

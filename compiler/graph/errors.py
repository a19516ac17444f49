"""The error of the graph level."""

from __future__ import annotations

from vdla.support.errors import Error


class GraphError(Error, ValueError):
    """A graph that breaks a rule; the message names graph, node or value."""

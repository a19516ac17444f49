# SPDX-License-Identifier: Apache-2.0
"""The errors of the importer of TensorFlow Lite models."""

from __future__ import annotations

from typing import NoReturn

from vdla.compiler.graph.attributes import GraphError


class TfliteError(GraphError):
    """A file that is no valid TensorFlow Lite model; the message names the tensor or operator."""


class NotImportedError(GraphError):
    """An operator that the importer has no nodes for; the message reads after "must"."""


def decline(rule: str) -> NoReturn:
    """Refuses an operator; `rule` reads after "must"."""
    raise NotImportedError(rule)

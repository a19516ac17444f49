# SPDX-License-Identifier: Apache-2.0
"""The errors of the importer."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler.graph.attributes import GraphError
from vdla.support.errors import Notice


class OnnxError(GraphError):
    """A file that is no valid ONNX model; the message names the model, node or tensor."""


class OnnxWarning(Notice):
    """A model that is imported with changes: a stale type, a result of another type."""


class UnsupportedError(OnnxError):
    """A valid model with unsupported nodes; `reasons` has the reason for each by its label."""

    def __init__(self, model: str, reasons: Mapping[str, str]) -> None:
        lines = "".join(f"\n  {label}: {reason}" for label, reason in reasons.items())
        count = f"{len(reasons)} nodes are" if len(reasons) > 1 else "1 node is"
        super().__init__(f"{model}: every node must be supported; {count} not:{lines}")
        self.reasons = dict(reasons)

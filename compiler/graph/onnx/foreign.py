# SPDX-License-Identifier: Apache-2.0
"""Operators of domains without schemas in onnx: the rules for their nodes."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import NodeProto

from vdla.compiler.graph.onnx.old_node import OldNode, Upgrade


@dataclass(frozen=True, slots=True)
class ForeignOperator:
    """An upgrade of nodes whose inputs and attributes no schema checks.

    `inputs` names the inputs; one with "?" behind it may be absent, and "..." at the end stands for
    further ones. `counts` names the attributes that must be positive integers.
    """

    upgrade: Upgrade
    inputs: str
    counts: str = ""

    def __call__(self, old: OldNode) -> list[NodeProto]:
        """The nodes that take the place of one.

        Raises:
            OnnxError: an input or attribute that is missing, too many inputs, or a wrong attribute.
        """
        *names, last = self.inputs.split()
        names += [] if last == "..." else [last]
        for place, name in enumerate(names):
            if not name.endswith("?") and not old.input(place):
                raise old.refuse(f"have the input {name}, got none")
        if last != "..." and len(old.node.input) > len(names):
            raise old.refuse(f"have at most {len(names)} inputs, got {len(old.node.input)}")
        for name in self.counts.split():
            value = old.peek(name, None)
            if not isinstance(value, int) or value < 1:
                raise old.refuse(f"have a positive integer as {name}, got {'none' if value is None else value}")
        return self.upgrade(old)

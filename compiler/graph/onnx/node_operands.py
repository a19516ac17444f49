# SPDX-License-Identifier: Apache-2.0
"""The operands of a node as rules read them: extents where they are known, and what differs."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler.graph.graph import Graph, Node, TensorType

Extents = Sequence[int | str | None] | None


class NodeOperands:
    """The operands of a node by their places."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node = graph, node

    def shape(self, place: int) -> Extents:
        """The extents of an operand; None if it is absent or of unknown rank."""
        if place >= len(self.node.inputs) or not self.node.inputs[place]:
            return None
        kind = self.graph.types.get(self.node.inputs[place])
        return kind.shape if isinstance(kind, TensorType) else None

    def differs(self, place: int, what: str, wanted: Sequence[int | str | None]) -> str | None:
        """The sentence for an operand of other extents than these."""
        shape = self.shape(place)
        if shape is None or (len(shape) == len(wanted) and all(map(agree, shape, wanted))):
            return None
        return f"{what} must be of {extents_text(wanted)}, got {extents_text(shape)}"

    def onto(self, place: int, what: str, wanted: Extents) -> str | None:
        """The sentence for an operand that does not broadcast to these extents."""
        shape = self.shape(place)
        if shape is None or wanted is None:
            return None
        ends = zip(reversed(shape), reversed(wanted), strict=False)
        if len(shape) <= len(wanted) and all(one == 1 or agree(one, two) for one, two in ends):
            return None
        return f"{what} must broadcast to {extents_text(wanted)}, got {extents_text(shape)}"

    def whole(self, name: str, default: int) -> int:
        """An attribute that is an integer."""
        return int(self.node.attributes.get(name, default))


def agree(one: object, two: object) -> bool:
    """Whether two extents may be equal: those that are not known may."""
    return one == two or not isinstance(one, int) or not isinstance(two, int)


def extents_text(extents: Sequence[int | str | None]) -> str:
    """Extents in a message."""
    return f"[{', '.join('?' if extent is None else str(extent) for extent in extents)}]"


def first_of(*sentences: str | None) -> str | None:
    """The first sentence that there is."""
    return next((sentence for sentence in sentences if sentence is not None), None)

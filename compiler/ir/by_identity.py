# SPDX-License-Identifier: Apache-2.0
"""Results of analyses, kept by the identity of what they are about.

Nodes of the IR are immutable, and rewriting shares what it does not change, so that a schedule asks
the same about the same objects again and again. Their hash would walk all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Generic, TypeVar

Node = TypeVar("Node")
Result = TypeVar("Result")


class Same(Generic[Node]):
    """A node that equals itself only; keeps it alive, and so its identity."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def __hash__(self) -> int:
        return id(self.node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.node is other.node


def by_identity(most: int) -> Callable[[Callable[[Node], Result]], Callable[[Node], Result]]:
    """Decorate a function of an immutable node: it keeps up to `most` immutable results."""

    def decorate(function: Callable[[Node], Result]) -> Callable[[Node], Result]:
        @lru_cache(maxsize=most)
        def kept(key: Same[Node]) -> Result:
            return function(key.node)

        @wraps(function)
        def asked(node: Node) -> Result:
            return kept(Same(node))

        return asked

    return decorate

# SPDX-License-Identifier: Apache-2.0
"""The units and the token queues between them: the one table from which all names of queues, token
fields, counters and registers are derived.

The units are a chain: tokens pass between neighbours only, so each queue is one direction between
two of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Unit(IntEnum):
    """The units that execute instructions, in the order in which tokens link them."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2

    @property
    def label(self) -> str:
        """The name in text: load, compute or store."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class TokenQueue:
    """The queue of tokens from a unit to a neighbour."""

    producer: Unit
    consumer: Unit

    @property
    def name(self) -> str:
        """The name in text, such as load_to_compute."""
        return f"{self.producer.label}_to_{self.consumer.label}"

    @property
    def push(self) -> str:
        """The field of a producer's instruction that pushes a token."""
        return "push_next" if self.consumer > self.producer else "push_prev"

    @property
    def pop(self) -> str:
        """The field of a consumer's instruction that pops a token."""
        return "pop_prev" if self.consumer > self.producer else "pop_next"


QUEUES = (
    TokenQueue(Unit.LOAD, Unit.COMPUTE),
    TokenQueue(Unit.COMPUTE, Unit.LOAD),
    TokenQueue(Unit.COMPUTE, Unit.STORE),
    TokenQueue(Unit.STORE, Unit.COMPUTE),
)
"""The token queues in the order of their numbers."""

UNITS = ("fetch", *(unit.label for unit in Unit))
"""The units whose cycles are counted, in the order of the counters' registers."""

COUNTERS = (
    "busy", "memory_latency", "memory_bandwidth", *(f"wait_{queue.name}" for queue in QUEUES), "commands", "idle",
)  # fmt: skip
"""The causes a unit's cycles are counted under, in the order of the counters' registers."""

SIDES = ("prev", "next")
"""The sides of a unit, as the token fields name them."""


def popped_queue(unit: Unit, side: str) -> int:
    """The number of the queue that `pop_<side>` pops on a unit; -1 if it has none."""
    return next((i for i, q in enumerate(QUEUES) if q.consumer is unit and q.pop == f"pop_{side}"), -1)

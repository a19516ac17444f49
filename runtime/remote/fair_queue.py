"""A bounded queue that takes from sessions in turn, however many items each has put.

Items of one session leave in the order in which they came.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from vdla.runtime.remote.errors import RemoteError

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """At most `most` items, and at most `most_of_one` of one session."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._waiting: OrderedDict[Hashable, deque[Item]] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, session: Hashable, item: Item, always: bool = False) -> int:
        """Append an item; the number of items before it. RemoteError when full, unless `always`."""
        with self._changed:
            total, mine = self._count(), len(self._waiting.get(session, ()))
            if not always and mine >= self._most_of_one:
                raise RemoteError(f"queue: a session must have at most {self._most_of_one} batches waiting, got more")
            if not always and total >= self._most:
                raise RemoteError(f"queue: at most {self._most} batches must wait, got more; try again later")
            self._waiting.setdefault(session, deque()).append(item)
            self._changed.notify()
            return total

    def take(self, timeout_s: float) -> Item | None:
        """The first item of the session whose turn it is; None after the timeout or when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, timeout_s)
            if not self._waiting:
                return None
            session, items = self._waiting.popitem(last=False)
            item = items.popleft()
            if items:
                self._waiting[session] = items  # its next turn is behind all others
            return item

    def remove(self, session: Hashable, matches: Callable[[Item], bool]) -> list[Item]:
        """Take out the waiting items of a session that match."""
        with self._changed:
            items = self._waiting.get(session, deque())
            removed = [item for item in items if matches(item)]
            kept = deque(item for item in items if not matches(item))
            if kept:
                self._waiting[session] = kept
            else:
                self._waiting.pop(session, None)
            return removed

    def close(self) -> None:
        """Wake whoever waits in `take`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _count(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __len__(self) -> int:
        with self._changed:
            return self._count()

"""Fresh names: loops, blocks and buffers of a function share one name space, so a name is one place in its text."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """The names in use."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def fresh(self, name: str, owner: str) -> str:
        """`name` if it is free, else `owner_name`, else that with a number; taken from now on."""
        choice = name if name not in self._taken else f"{owner}_{name}"
        base, count = choice, 1
        while choice in self._taken:
            count += 1
            choice = f"{base}_{count}"
        self._taken.add(choice)
        return choice

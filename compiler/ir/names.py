"""Fresh names: the loops, blocks and buffers of a function share one name space."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """The names in use in a function."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def fresh(self, name: str, owner: str) -> str:
        """Reserves `name` if free, else `owner_name`, else that with a number appended."""
        choice = name if name not in self._taken else f"{owner}_{name}"
        base, count = choice, 1
        while choice in self._taken:
            count += 1
            choice = f"{base}_{count}"
        self._taken.add(choice)
        return choice

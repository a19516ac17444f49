"""Mutations of JSON: other types, huge numbers, names of other places, lost and moved parts."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

Json = Any

_VALUES: tuple[Json, ...] = (
    None, True, False, -1, 0, 1, 2, 63, 64, 255, 2**31, 2**40, 2**63, 10**30, 0.5, 1e300, "", "x", "float32", "int64",
    "object", "a" * 300, [], {}, [0], [[]], {"array": ["int8", [1], "00"]}, {"array": ["int8", [2**40], ""]}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Place:
    """A value in an object or a list; `places` are all in the same document."""

    owner: Json
    key: Any
    places: list[tuple[Json, Any]]
    words: Sequence[str]

    @property
    def value(self) -> Json:
        return self.owner[self.key]


def mutate_json(root: Json, random: Random, words: Sequence[str] = ()) -> None:
    """Changes one to three places below an object or a list; `words` may take texts' places."""
    for _ in range(random.randint(1, 3)):
        places = list(_places(root))
        if not places:
            return
        random.choice(_MUTATIONS)(_Place(*random.choice(places), places, words), random)


def _places(value: Json) -> Iterator[tuple[Json, Any]]:
    """Every place of a value, as its owner and the key or index in it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(pairs):
        yield value, key
        yield from _places(part)


def _replace(place: _Place, random: Random) -> None:
    place.owner[place.key] = copy.deepcopy(random.choice(_VALUES))


def _nudge(place: _Place, random: Random) -> None:
    """A number near the one that is there, or another text."""
    value = place.value
    if isinstance(value, int | float):
        place.owner[place.key] = random.choice((value + 1, value - 1, value * 2, value + 64, -value))
    elif isinstance(value, str) and place.words:
        place.owner[place.key] = random.choice(place.words)


def _copy(place: _Place, random: Random) -> None:
    """The value of another place, of the same type."""
    alike = [owner[key] for owner, key in place.places if type(owner[key]) is type(place.value)]
    place.owner[place.key] = copy.deepcopy(random.choice(alike))


def _swap(place: _Place, random: Random) -> None:
    """Two values of the same owner, each in the place of the other."""
    owner, key = place.owner, place.key
    other = random.choice(list(owner) if isinstance(owner, dict) else range(len(owner)))
    owner[key], owner[other] = owner[other], owner[key]


def _remove(place: _Place, random: Random) -> None:
    del place.owner[place.key]


def _repeat(place: _Place, random: Random) -> None:
    if isinstance(place.owner, list):
        place.owner.insert(place.key, copy.deepcopy(place.value))
    else:
        place.owner[random.choice((f"{place.key}2", "", "x"))] = copy.deepcopy(place.value)


_MUTATIONS = (_replace, _replace, _nudge, _nudge, _copy, _copy, _swap, _remove, _repeat)

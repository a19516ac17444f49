# SPDX-License-Identifier: Apache-2.0
"""Mutations of what is read: of the bytes of files, of JSON, of protobuf messages."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any


def mutated_bytes(content: bytes, other: bytes, random: Random) -> bytes:
    """A file with one to three faults; `other` is a file from which ranges are spliced in."""
    made = bytearray(content)
    for _ in range(random.randint(1, 3)):
        if made:
            made = random.choice(_MUTATIONS)(made, other, random)
    return bytes(made)


def _flip(content: bytearray, other: bytes, random: Random) -> bytearray:
    for _ in range(random.choice((1, 1, 2, 8))):
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    return content


def _set(content: bytearray, other: bytes, random: Random) -> bytearray:
    content[random.randrange(len(content))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
    return content


def _truncate(content: bytearray, other: bytes, random: Random) -> bytearray:
    return content[: random.randrange(len(content))]


def _remove(content: bytearray, other: bytes, random: Random) -> bytearray:
    start, stop = _range(content, random)
    return content[:start] + content[stop:]


def _repeat(content: bytearray, other: bytes, random: Random) -> bytearray:
    start, stop = _range(content, random)
    return content[:stop] + content[start:]


def _splice(content: bytearray, other: bytes, random: Random) -> bytearray:
    start, stop = _range(content, random)
    first, last = _range(other, random) if other else (0, 0)
    return content[:start] + other[first:last] + content[stop:]


def _range(content: bytes | bytearray, random: Random) -> tuple[int, int]:
    start = random.randrange(len(content))
    return start, min(len(content), start + random.choice((1, 2, 4, 16, 64)))


_MUTATIONS = (_flip, _flip, _set, _truncate, _remove, _repeat, _splice)


# --- JSON -----------------------------------------------------------------------------------------
# Mutations of JSON: other types, huge numbers, names of other places, lost and moved parts.


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
        places = list(_json_places(root))
        if not places:
            return
        random.choice(_JSON_MUTATIONS)(_Place(*random.choice(places), places, words), random)


def _json_places(value: Json) -> Iterator[tuple[Json, Any]]:
    """Every place of a value, as its owner and the key or index in it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(pairs):
        yield value, key
        yield from _json_places(part)


def _replace(place: _Place, random: Random) -> None:
    place.owner[place.key] = copy.deepcopy(random.choice(_VALUES))


def _nudge(place: _Place, random: Random) -> None:
    """A number close to the given one, or another text."""
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


def _remove_part(place: _Place, random: Random) -> None:
    del place.owner[place.key]


def _repeat_part(place: _Place, random: Random) -> None:
    if isinstance(place.owner, list):
        place.owner.insert(place.key, copy.deepcopy(place.value))
    else:
        place.owner[random.choice((f"{place.key}2", "", "x"))] = copy.deepcopy(place.value)


_JSON_MUTATIONS = (_replace, _replace, _nudge, _nudge, _copy, _copy, _swap, _remove_part, _repeat_part)


# --- messages of protobuf -------------------------------------------------------------------------
# Mutations of protobuf messages: fields removed, repeated, swapped, set to extreme values.


Message = Any  # protobuf's classes are untyped
Field = Any

_INTEGERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 255, 2**31 - 1, 2**40, 2**62, 2**63 - 1)
_FLOATS = (float("nan"), float("inf"), float("-inf"), 0.0, -1.0, 1e38)


def mutate_message(message: Message, random: Random) -> None:
    """Changes one to three fields anywhere below a message."""
    for _ in range(random.randint(1, 3)):
        places = list(_fields(message))
        if not places:
            return
        owner, field = random.choice(places)
        _change(owner, field, places, random)


def _fields(message: Message) -> Iterator[tuple[Message, Field]]:
    """Every field that is set, with its message."""
    for field, value in message.ListFields():
        yield message, field
        if field.message_type is not None:
            for part in value if field.is_repeated else (value,):
                yield from _fields(part)


def _change(owner: Message, field: Field, places: list[tuple[Message, Field]], random: Random) -> None:
    if random.random() < 0.15:
        owner.ClearField(field.name)
    elif field.is_repeated:
        _change_repeated(getattr(owner, field.name), field, random)
    elif field.message_type is not None:
        twins = [message for message, _ in places if message.DESCRIPTOR is field.message_type]
        if twins:
            twin = type(twins[0]).FromString(random.choice(twins).SerializeToString())
            getattr(owner, field.name).CopyFrom(twin)
    else:
        setattr(owner, field.name, _scalar(getattr(owner, field.name), field, places, random))


def _change_repeated(values: Any, field: Field, random: Random) -> None:  # noqa: ANN401
    index = random.randrange(len(values)) if len(values) else 0
    action = random.randrange(4)
    if not len(values) or action == 0:
        del values[index : index + 1]
    elif field.message_type is not None:
        values.add().CopyFrom(values[index])
        if action == 1:
            copies = [type(value).FromString(value.SerializeToString()) for value in values]
            random.shuffle(copies)
            del values[:]
            values.extend(copies)
    elif action == 1:
        values.append(values[index])
    else:
        values[index] = _scalar(values[index], field, [], random)


def _scalar(value: Any, field: Field, places: list[tuple[Message, Field]], random: Random) -> Any:  # noqa: ANN401
    """Another value of a field's type; numbers out of its range are cut to it."""
    match value:
        case str():
            names = [getattr(m, f.name) for m, f in places if not f.is_repeated and isinstance(getattr(m, f.name), str)]
            return random.choice([*names, "", "x", "a" * 300])
        case bytes():
            return random.choice([b"", value[: len(value) // 2], value * 2, bytes(len(value)), b"\xff" * len(value)])
        case float():
            return random.choice(_FLOATS)
        case _ if field.enum_type is not None:
            return random.choice([number.number for number in field.enum_type.values])
        case _:
            chosen = random.choice((*_INTEGERS, value + 1, value - 1, value * 2))
            low, high = (-(2**31), 2**31 - 1) if field.cpp_type == field.CPPTYPE_INT32 else (-(2**63), 2**63 - 1)
            return min(max(chosen, low if field.cpp_type in (1, 2) else 0), high)

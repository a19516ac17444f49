"""Mutations of protobuf messages: fields removed, repeated, swapped, set to extreme values."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

Message = Any  # protobuf's classes are untyped
Field = Any

_INTEGERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 255, 2**31 - 1, 2**40, 2**62, 2**63 - 1)
_FLOATS = (float("nan"), float("inf"), float("-inf"), 0.0, -1.0, 1e38)


def mutate_message(message: Message, random: Random) -> None:
    """Changes one to three fields anywhere below a message."""
    for _ in range(random.randint(1, 3)):
        places = list(_places(message))
        if not places:
            return
        owner, field = random.choice(places)
        _change(owner, field, places, random)


def _places(message: Message) -> Iterator[tuple[Message, Field]]:
    """Every field that is set, with its message."""
    for field, value in message.ListFields():
        yield message, field
        if field.message_type is not None:
            for part in value if field.is_repeated else (value,):
                yield from _places(part)


def _change(owner: Message, field: Field, places: list[tuple[Message, Field]], random: Random) -> None:
    if random.random() < 0.15:
        owner.ClearField(field.name)
    elif field.is_repeated:
        _change_repeated(getattr(owner, field.name), field, random)
    elif field.message_type is not None:
        twins = [message for message, _ in places if message.DESCRIPTOR is field.message_type]
        if twins:
            copy = type(twins[0]).FromString(random.choice(twins).SerializeToString())
            getattr(owner, field.name).CopyFrom(copy)
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

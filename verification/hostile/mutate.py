"""Mutations of files: bits, bytes and ranges of them."""

from __future__ import annotations

from random import Random


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

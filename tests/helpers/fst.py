# SPDX-License-Identifier: Apache-2.0
"""Reads what a waveform file (FST) says of itself: first and last time, names of signals.

The format is that of GTKWave's `fstapi`; values are not read.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

_HEADER, _GZIP_NAMES, _LZ4_NAMES = 0, 4, 6
_SCOPE, _UPSCOPE, _ATTRIBUTE, _END_OF_ATTRIBUTE = 254, 255, 252, 253


@dataclass(frozen=True)
class Waves:
    """Times from `first` to `last`; names are those of GTKWave: `TOP.vdla.started[2:0]`."""

    first: int
    last: int
    names: frozenset[str]


def read_waves(path: Path) -> Waves:
    content, place, blocks = path.read_bytes(), 0, {}
    while place < len(content):
        size = int.from_bytes(content[place + 1 : place + 9], "big")
        blocks[content[place]] = content[place + 9 : place + 1 + size]
        place += 1 + size
    header = blocks[_HEADER]
    first, last = (int.from_bytes(header[at : at + 8], "big") for at in (0, 8))
    if _GZIP_NAMES in blocks:
        return Waves(first, last, frozenset(_names(gzip.decompress(blocks[_GZIP_NAMES][8:]))))
    size = int.from_bytes(blocks[_LZ4_NAMES][:8], "big")
    return Waves(first, last, frozenset(_names(_literals(blocks[_LZ4_NAMES][8:])[:size])))


def _literals(block: bytes) -> bytes:
    """The literals of an LZ4 block that has nothing else, as our writer's."""
    length, place = block[0] >> 4, 1
    if length == 15:
        while True:
            length += block[place]
            place += 1
            if block[place - 1] != 255:
                break
    return block[place : place + length]


def _names(data: bytes):
    place, scopes = 0, []

    def text() -> str:
        nonlocal place
        end = data.index(0, place)
        value, place = data[place:end].decode(), end + 1
        return value

    def number() -> None:
        nonlocal place
        while data[place] & 128:
            place += 1
        place += 1

    while place < len(data):
        tag = data[place]
        place += 1
        if tag == _SCOPE:
            place += 1
            scopes.append(text())
            text()
        elif tag == _UPSCOPE:
            scopes.pop()
        elif tag == _ATTRIBUTE:
            place += 2
            text()
            number()
        elif tag != _END_OF_ATTRIBUTE:
            place += 1
            yield ".".join([*scopes, text().replace(" ", "")])
            number()
            number()

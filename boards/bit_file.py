# SPDX-License-Identifier: Apache-2.0
"""Bitstream files of Xilinx tools (.bit): a header of four texts, then the payload.

The invariant: what `write_bit` writes, `read_bit` and pynq's parser read back. Real payloads are
for the FPGA; that of the virtual board is JSON which names the machine and its hardware handoff
file.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path

from vdla.boards.board import Board, BoardError
from vdla.boards.hwh import DESIGN, VIVADO
from vdla.hardware.config import Config
from vdla.support.atomic import write_bytes

_MAGIC = bytes.fromhex("00090ff00ff00ff00ff0000001")
_TEXT_KEYS = b"abcd"
_PAYLOAD_KEY = b"e"
_WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class BitFile:
    """A bitstream: the design's name, the part, date and time of the build, the payload."""

    design: str
    part: str
    date: str
    time: str
    payload: bytes


def write_bit(path: Path, bit: BitFile) -> None:
    """Write a bitstream; the payload is filled up with zeros to whole words."""
    write_bytes(path, render_bit(bit))


def render_bit(bit: BitFile) -> bytes:
    """The bytes of a bitstream file."""
    texts = (bit.design, bit.part, bit.date, bit.time)
    header = b"".join(_text(key, text) for key, text in zip(_TEXT_KEYS, texts, strict=True))
    payload = bit.payload + bytes(-len(bit.payload) % _WORD_BYTES)
    return _MAGIC + header + _PAYLOAD_KEY + struct.pack(">I", len(payload)) + payload


def read_bit(path: Path) -> BitFile:
    """The bitstream of a file; BoardError if it is none."""
    return parse_bit(path.read_bytes(), str(path))


def parse_bit(content: bytes, where: str) -> BitFile:
    """The bitstream in the bytes of a file; `where` names it in errors."""
    if not content.startswith(_MAGIC):
        raise BoardError(f"{where}: content must be a bitstream (.bit), got other first bytes")
    offset, texts = len(_MAGIC), []
    for key in _TEXT_KEYS:
        text, offset = _field(content, offset, key, where)
        texts.append(text)
    head = content[offset : offset + 5]
    if len(head) < 5 or head[:1] != _PAYLOAD_KEY:
        raise BoardError(f"{where}: field of a bitstream must be e, got {head[:1]!r}")
    (length,) = struct.unpack(">I", head[1:])
    payload = content[offset + 5 :]
    if len(payload) != length:
        raise BoardError(f"{where}: payload must have the {length} bytes that it states, got {len(payload)}")
    design, part, date, time = texts
    return BitFile(design=design, part=part, date=date, time=time, payload=payload)


def _text(key: int, text: str) -> bytes:
    encoded = text.encode("ascii") + b"\0"
    return struct.pack(">BH", key, len(encoded)) + encoded


def _field(content: bytes, offset: int, key: int, where: str) -> tuple[str, int]:
    """The text at an offset, and the offset behind it."""
    if len(content) < offset + 3 or content[offset] != key:
        raise BoardError(f"{where}: field of a bitstream must be {chr(key)}, got {content[offset : offset + 1]!r}")
    (length,) = struct.unpack_from(">H", content, offset + 1)
    end = offset + 3 + length
    encoded = content[offset + 3 : end]
    if len(encoded) < length or encoded[-1:] != b"\0" or not encoded.isascii():
        raise BoardError(f"{where}: field {chr(key)} of a bitstream must be text that ends with a NUL")
    return encoded[:-1].decode("ascii"), end


# --- the virtual board ----------------------------------------------------------------------------


def virtual_bit(board: Board, config: Config, build: str, hwh: str) -> BitFile:
    """The bitstream of the virtual board: it names the machine and the handoff file beside it.

    pynq caches what it knows of a design by the hash of the bitstream alone, hence the file's hash.
    """
    payload = {
        "board": board.name,
        "preset": config.name,
        "fingerprint": config.fingerprint,
        "build": build,
        "hwh_sha256": hashlib.sha256(hwh.encode()).hexdigest(),
    }
    text = json.dumps(payload, sort_keys=True)
    design = f"{DESIGN}_wrapper;UserID=0XFFFFFFFF;Version={VIVADO}"
    return BitFile(
        design=design, part=board.part, date="1970/01/01", time="00:00:00", payload=text.encode().ljust(_rounded(text))
    )


def is_virtual(bit: BitFile) -> bool:
    """Whether a bitstream is for the virtual board only."""
    return f"Version={VIVADO}" in bit.design.split(";")


def read_virtual(bit: BitFile, where: str) -> dict[str, str]:
    """The facts in a virtual board's bitstream; BoardError for one of a real FPGA."""
    return parse_virtual(bit.payload, where)


def parse_virtual(payload: bytes, where: str) -> dict[str, str]:
    """The facts in the payload of a virtual board's bitstream."""
    try:
        document = json.loads(payload)
    except ValueError:
        raise BoardError(f"{where}: bitstream must be for the virtual board, got one for an FPGA") from None
    names = ("board", "preset", "fingerprint", "build", "hwh_sha256")
    if not isinstance(document, dict) or not all(isinstance(document.get(name), str) for name in names):
        raise BoardError(f"{where}: bitstream of the virtual board must have {', '.join(names)}, got {document!r}")
    return {name: document[name] for name in names}


def _rounded(text: str) -> int:
    """The bytes of a text in whole words; spaces fill it up, since JSON ignores them."""
    return len(text) + -len(text) % _WORD_BYTES

# SPDX-License-Identifier: Apache-2.0
"""Bitstream files: written and read back, and every damage named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from vdla.boards.bit_file import BitFile, parse_bit, parse_virtual, read_bit, render_bit, virtual_bit, write_bit
from vdla.boards.board import BoardError, load_board
from vdla.boards.hwh import render_hwh

BIT = BitFile(design="top;UserID=1", part="xc7z020clg400-1", date="2024/01/02", time="03:04:05", payload=b"\1\2\3\4")


def test_the_bytes_of_a_small_bitstream() -> None:
    bit = BitFile(design="d", part="p", date="1", time="2", payload=b"\xff")
    head = bytes.fromhex("0009 0ff00ff00ff00ff000 0001".replace(" ", ""))
    fields = b"a\0\2d\0" + b"b\0\2p\0" + b"c\0\0021\0" + b"d\0\0022\0"
    assert render_bit(bit) == head + fields + b"e\0\0\0\4\xff\0\0\0"


def test_a_bitstream_is_read_back(tmp_path: Path) -> None:
    write_bit(tmp_path / "x.bit", BIT)
    assert read_bit(tmp_path / "x.bit") == BIT


def test_that_of_the_virtual_board_names_machine_and_handoff_file() -> None:
    board = load_board("pynq_z1")
    config = board.config("pynq_z1_512")
    hwh = render_hwh(board, config, "00ff00ff00ff")
    bit = parse_bit(render_bit(virtual_bit(board, config, "00ff00ff00ff", hwh)), "x.bit")
    assert (bit.part, len(bit.payload) % 4) == (board.part, 0)
    assert parse_virtual(bit.payload, "x.bit") == {
        "board": "pynq_z1",
        "preset": "pynq_z1_512",
        "fingerprint": config.fingerprint,
        "build": "00ff00ff00ff",
        "hwh_sha256": hashlib.sha256(hwh.encode()).hexdigest(),
    }


WHOLE = render_bit(BIT)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "content must be a bitstream (.bit), got other first bytes"),
        (WHOLE[:13] + b"x", "field of a bitstream must be a, got b'x'"),
        (WHOLE[:20], "field a of a bitstream must be text that ends with a NUL"),
        (WHOLE[:-1], "payload must have the 4 bytes that it states, got 3"),
        (WHOLE + b"\0", "payload must have the 4 bytes that it states, got 5"),
        (WHOLE[:-9], "field of a bitstream must be e, got b''"),
    ],
)
def test_a_damaged_bitstream_is_refused(content: bytes, error: str) -> None:
    with pytest.raises(BoardError) as caught:
        parse_bit(content, "x.bit")
    assert str(caught.value) == f"x.bit: {error}"


def test_one_of_an_fpga_is_not_the_virtual_boards() -> None:
    with pytest.raises(BoardError) as caught:
        parse_virtual(BIT.payload, "x.bit")
    assert str(caught.value) == "x.bit: bitstream must be for the virtual board, got one for an FPGA"
    with pytest.raises(BoardError) as caught:
        parse_virtual(b"{}", "x.bit")
    assert str(caught.value) == (
        "x.bit: bitstream of the virtual board must have board, preset, fingerprint, build, hwh_sha256, got {}"
    )

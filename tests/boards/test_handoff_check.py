# SPDX-License-Identifier: Apache-2.0
"""Which bitstreams and handoff files are accepted together, and what is said of those that are not.

Files as Vivado writes them are made from those of the virtual board: another header, the part in
pieces, a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from vdla.boards.bit_file import BitFile, read_bit, write_bit
from vdla.boards.board import BoardError, board_names, load_board
from vdla.boards.handoff_check import check_bitstream, check_handoff, machine_of, read_bitstream
from vdla.boards.handoff_file import HandoffFile
from vdla.boards.overlay_files import write_overlay
from vdla.hardware.generate.build_hash import build_hash

MACHINES = [(name, machine) for name in board_names() for machine in load_board(name).machines]
Z2 = load_board("pynq_z2")
BUILD = build_hash(Z2.config())
TIME = 'TIMESTAMP=""'
BUILT = 'TIMESTAMP="Sun Mar 03 10:00:00 2024"'
SYSTEM = f'BOARD="{Z2.board_part}" DEVICE="{Z2.part}"'
PIECES = f'ARCH="zynq" BOARD="{Z2.board_part}" DEVICE="7z020" PACKAGE="clg400" SPEEDGRADE="-1"'


@pytest.fixture
def bitstream(tmp_path: Path) -> Path:
    """A bitstream with its handoff file beside it, as Vivado names their part and times."""
    path = write_overlay(Z2, Z2.config(), tmp_path)
    edit(path, lambda text: text.replace(TIME, BUILT).replace(SYSTEM, PIECES).replace('"virtual"', '"2022.1.2"'))
    bit = BitFile("vdla_system_wrapper;UserID=0XFFFFFFFF;Version=2022.1", "7z020clg400", "2024/03/03", "10:45:00", b"1")
    write_bit(path, bit)
    return path


def edit(bitstream: Path, change: Callable[[str], str]) -> None:
    path = bitstream.with_suffix(".hwh")
    text = path.read_text(encoding="utf-8")
    changed = change(text)
    assert changed != text
    path.write_text(changed, encoding="utf-8")


def check(bitstream: Path, accept: str | None = None) -> None:
    handoff = HandoffFile(bitstream.with_suffix(".hwh"))
    check_handoff(handoff, Z2, machine_of(handoff, Z2), accept)
    check_bitstream(bitstream, read_bitstream(bitstream)[0], handoff, Z2)


def refused(bitstream: Path) -> str:
    """What is said, without the folder."""
    with pytest.raises(BoardError) as error:
        check(bitstream)
    return str(error.value).replace(f"{bitstream.parent}/", "")


@pytest.mark.parametrize(("name", "machine"), MACHINES)
def test_the_files_of_the_virtual_board_are_accepted(name: str, machine: str, tmp_path: Path) -> None:
    board = load_board(name)
    path = write_overlay(board, board.config(machine), tmp_path)
    handoff = HandoffFile(path.with_suffix(".hwh"))
    assert machine_of(handoff, board) == board.config(machine)
    check_handoff(handoff, board, board.config(machine))
    check_bitstream(path, read_bit(path), handoff, board)


def test_files_as_vivado_writes_them_are_accepted(bitstream: Path) -> None:
    check(bitstream)
    bit = read_bit(bitstream)
    write_bit(bitstream, replace(bit, design="vdla_system_wrapper;COMPRESS=TRUE;UserID=0XFFFFFFFF;Version=2022.1"))
    check(bitstream)
    edit(bitstream, lambda text: text.replace(f'BOARD="{Z2.board_part}" ', ""))
    check(bitstream)
    edit(bitstream, lambda text: text.replace(f'"{BUILD}"', '"0123456789ab"'))
    check(bitstream, "0123456789ab")


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('"7z020"', '"7z010"', "part must be xc7z020clg400-1 for board pynq_z2, got 7z010clg400-1"),
        (PIECES, "", "part must be xc7z020clg400-1 for board pynq_z2, got none"),
        (
            Z2.board_part,
            "www.digilentinc.com:pynq-z1:part0:1.0",
            "board must be tul.com.tw:pynq-z2:part0:1.0 for pynq_z2, got www.digilentinc.com:pynq-z1:part0:1.0",
        ),
        ('"pynq_z2"', '"pynq_z3"', "machine must be one of pynq_z2, got pynq_z3 (did you mean pynq_z2?); give --config "
                                   "for another"),
        (
            f'"{Z2.config().fingerprint}"',
            '"0123456789ab"',
            f"parameter FINGERPRINT must be {Z2.config().fingerprint} for pynq_z2 on pynq_z2, got 0123456789ab; build "
            "the bitstream again, with vdla board vivado",
        ),
        (
            '"COHERENT" VALUE="0"',
            '"COHERENT" VALUE="1"',
            "parameter COHERENT must be 0 for pynq_z2 on pynq_z2, got 1; build the bitstream again, with vdla board "
            "vivado",
        ),
        (
            f'"{BUILD}"',
            '"0123456789ab"',
            f"parameter BUILD must be {BUILD}, that of these sources, got 0123456789ab; build the bitstream again, "
            "with vdla board vivado, or give --accept-build 0123456789ab",
        ),
        ('VALUE="100.000000"', 'VALUE="142.857132"', "clock must be 100 MHz for pynq_z2, got 142.857 MHz"),
        (
            "PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ",
            "PSU__OTHER",
            "parameter PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ must be the clock in MHz, got none",
        ),
        (
            "0x43C00000",
            "0x43C10000",
            "addresses of vdla_0 must be 0x43c00000 to 0x43c00fff, got 0x43c10000 to 0x43c00fff",
        ),
        (
            'INSTANCE="axi_intc_0" IS_DATA',
            'INSTANCE="intc" IS_DATA',
            "addresses of axi_intc_0 must be 0x41800000 to 0x41800fff, got none",
        ),
        ("vdla:accelerator:vdla:1.0", "vdla:accelerator:vdla:2.0", "design must have an IP of type "
                                                                   "vdla:accelerator:vdla:1.0, got none"),
    ],
)  # fmt: skip
def test_handoff_files_of_another_design(old: str, new: str, text: str, bitstream: Path) -> None:
    edit(bitstream, lambda content: content.replace(old, new))
    assert refused(bitstream) == f"pynq_z2.hwh: {text}"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"part": "7z010clg400"}, "part must be xc7z020clg400-1 for board pynq_z2, got 7z010clg400"),
        ({"part": ""}, "part must be xc7z020clg400-1 for board pynq_z2, got none"),
        (
            {"design": "base_wrapper;UserID=0XFFFFFFFF;Version=2022.1"},
            "design must be vdla_system, as pynq_z2.hwh has it, got base; copy both files from one build",
        ),
        (
            {"design": "vdla_system_wrapper;Version=2023.2"},
            "version of Vivado must be 2022.1, as pynq_z2.hwh has it, got 2023.2; copy both files from one build",
        ),
        (
            {"design": "vdla_system_wrapper"},
            "version of Vivado must be 2022.1, as pynq_z2.hwh has it, got none; copy both files from one build",
        ),
        (
            {"time": "09:59:59"},
            "time must be after 2024-03-03 10:00:00, that of pynq_z2.hwh, got 2024-03-03 09:59:59; copy both files "
            "from one build",
        ),
    ],
)
def test_bitstreams_of_another_build(fields: dict[str, str], text: str, bitstream: Path) -> None:
    write_bit(bitstream, replace(read_bit(bitstream), **fields))
    assert refused(bitstream) == f"pynq_z2.bit: {text}"


def test_the_virtual_bitstream_names_its_handoff_file(tmp_path: Path) -> None:
    path = write_overlay(Z2, Z2.config(), tmp_path)
    digest = json.loads(read_bit(path).payload)["hwh_sha256"]
    edit(path, lambda text: f"{text}<!-- another -->\n")
    now = HandoffFile(path.with_suffix(".hwh")).sha256
    assert refused(path) == (
        f"pynq_z2.bit: SHA-256 of the .hwh must be {now}, as pynq_z2.hwh has it, got {digest}; copy both files from "
        "one build"
    )


def test_files_that_are_not_there(bitstream: Path) -> None:
    bitstream.write_bytes(b"none")
    assert refused(bitstream) == "pynq_z2.bit: content must be a bitstream (.bit), got other first bytes"
    bitstream.unlink()
    assert refused(bitstream).startswith("pynq_z2.bit: no such file")
    handoff = bitstream.with_suffix(".hwh")
    handoff.write_text("none")
    assert (
        refused(bitstream)
        == "pynq_z2.hwh: content must be a hardware handoff (.hwh), got syntax error: line 1, column 0"
    )
    handoff.unlink()
    assert refused(bitstream).startswith("pynq_z2.hwh: no such file")

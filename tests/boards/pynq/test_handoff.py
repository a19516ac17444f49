# SPDX-License-Identifier: Apache-2.0
"""Both of pynq's parsers find the accelerator, its registers and its interrupt in handoff files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vdla.boards.bit_file import parse_virtual, render_bit, virtual_bit
from vdla.boards.board import board_names, load_board
from vdla.boards.hwh import render_hwh
from vdla.boards.ip import IP_INSTANCE, IP_VLNV
from vdla.hardware.generate.registers import OFFSETS

hwh_parser = pytest.importorskip("pynq.pl_server.hwh_parser", reason="needs pynq")
embedded_device = pytest.importorskip("pynq.pl_server.embedded_device", reason="needs pynq")
frontends = pytest.importorskip("pynqmetadata.frontends", reason="needs pynq")
views = pytest.importorskip("pynqmetadata.views.runtime", reason="needs pynq")

pytestmark = pytest.mark.filterwarnings("ignore")

BUILD = "0123456789ab"
MACHINES = [(name, machine) for name in board_names() for machine in load_board(name).machines]
LEGACY = {"zynq7": hwh_parser._HWHZynq, "zynqmp": hwh_parser._HWHUltrascale}


def parsed(name: str, preset: str, folder: Path, parser: str) -> Any:
    board = load_board(name)
    text = render_hwh(board, board.config(preset), BUILD)
    if parser == "legacy":
        return LEGACY[board.processor](hwh_data=text)
    path = folder / "vdla.hwh"
    path.write_text(text)
    return views.RuntimeMetadataParser(frontends.Metadata(input=path))


@pytest.mark.parametrize("parser", ["legacy", "metadata"])
@pytest.mark.parametrize(("name", "preset"), MACHINES)
def test_the_accelerator_is_in_ip_dict(name: str, preset: str, parser: str, tmp_path: Path) -> None:
    board = load_board(name)
    found = parsed(name, preset, tmp_path, parser)
    ip = found.ip_dict[IP_INSTANCE]
    assert (ip["type"], ip["phys_addr"], ip["addr_range"]) == (IP_VLNV, board.control_base, board.control_bytes)
    assert ip["parameters"]["PRESET"] == preset
    assert ip["parameters"]["FINGERPRINT"] == board.config(preset).fingerprint
    assert (ip["parameters"]["BUILD"], ip["parameters"]["COHERENT"]) == (BUILD, "0")
    assert {key: one["address_offset"] for key, one in ip["registers"].items()} == OFFSETS
    assert ip["registers"]["INTERRUPT"]["fields"]["pending"]["bit_offset"] == 1
    assert ip["interrupts"] == {"irq": {"controller": "axi_intc_0", "index": 0, "fullpath": "vdla_0/irq"}}


@pytest.mark.parametrize("name", board_names())
def test_the_controller_is_on_the_processors_first_interrupt(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    controllers = parsed(name, board.preset, tmp_path, "metadata").interrupt_controllers
    raw = {"zynq7": 61, "zynqmp": 121}[board.processor]
    assert controllers == {"axi_intc_0": {"parent": "", "index": 0, "raw_irq": raw}}


@pytest.mark.parametrize("name", board_names())
def test_one_clock_is_enabled_with_the_boards_frequency(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    clocks = parsed(name, board.preset, tmp_path, "metadata").clock_dict
    assert [clocks[number]["enable"] for number in range(4)] == [1, 0, 0, 0]
    assert clocks[0]["frequency"] == board.clock_mhz


def test_pynq_reads_the_bitstream() -> None:
    board = load_board("pynq_z1")
    config = board.config()
    content = render_bit(virtual_bit(board, config, BUILD, "hwh"))
    assert embedded_device.parse_bit_header(content)["part"] == board.part
    swapped = embedded_device.bit2bin(content)
    words = b"".join(swapped[start : start + 4][::-1] for start in range(0, len(swapped), 4))
    assert parse_virtual(words, "x.bin")["fingerprint"] == config.fingerprint

# SPDX-License-Identifier: Apache-2.0
"""A board whose contiguous memory lies beyond 4 GiB: driver and machine use whole addresses."""

from __future__ import annotations

import pytest
from helpers.virtual_boards import write_bitstream

from vdla.hardware.config import Config

pytest.importorskip("pynq", reason="pynq is not installed (make test-board)")

from vdla.benchmarks.board.virtual_client import free_address
from vdla.boards.board import load_board
from vdla.boards.virtual.virtual_board import AddressError, VirtualBoard

KV260 = load_board("kv260").config()
SOURCE = """
from helpers.small_programs import small_gemm
from vdla.boards.board import load_board
from vdla.runtime.devices.pynq_device import PynqDevice
from vdla.runtime.devices.run import run

program, inputs, _ = small_gemm(load_board("kv260").config())
expected = run(program, inputs, "sim").outputs["out"]
with PynqDevice(program.config, bitstream={bitstream!r}) as device:
    print(hex(device.allocate(1)), (run(program, inputs, device).outputs["out"] == expected).all())
"""


def test_a_program_runs_beyond_4_gib(client, tmp_path):
    bitstream = write_bitstream(tmp_path, KV260, "kv260")
    address = free_address()
    with VirtualBoard(load_board("kv260"), KV260, address=address, high_memory=True):
        assert client(address, SOURCE.format(bitstream=str(bitstream))) == "0x800000000 True\n"


def test_a_board_without_such_memory():
    with pytest.raises(AddressError) as error:
        VirtualBoard(load_board("pynq_z1"), Config.preset("tiny"), high_memory=True)
    assert str(error.value) == (
        "board serve: --high-memory must be of a board with DRAM beyond 2 GiB, got PYNQ-Z1; try --board kv260"
    )

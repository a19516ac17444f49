# SPDX-License-Identifier: Apache-2.0
"""The files of a virtual board, and which machine a bitstream configures."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from vdla.boards.bit_file import virtual_bit
from vdla.boards.board import BoardError, load_board
from vdla.boards.virtual import board_files
from vdla.boards.virtual.bitstream import build_numbers, machine_of
from vdla.boards.virtual.board_files import BUFFERS, MANAGER, BoardFiles, FileRefusal
from vdla.boards.virtual.fabric import FabricError
from vdla.boards.virtual.memory import BoardMemory
from vdla.hardware.config import Config

TINY, Z1 = Config.preset("tiny"), Config.preset("pynq_z1")
BOARD = load_board("pynq_z1")


def files(board=BOARD, program=lambda payload: None) -> BoardFiles:
    return BoardFiles(board, BoardMemory(1 << 20), program)


def refusal(function, *arguments) -> str:
    with pytest.raises((FileRefusal, FabricError, BoardError)) as error:
        function(*arguments)
    return str(error.value)


@pytest.mark.parametrize(("name", "arch"), [("pynq_z1", "armv7l"), ("zcu104", "aarch64")])
def test_the_client_finds_the_processor_and_the_name(name, arch):
    found = files(load_board(name))
    assert (b"aarch64" in found.read("/proc/version")) == (arch == "aarch64")
    assert found.read("/proc/device-tree/chosen/pynq_board").rstrip(b"\0").decode() == load_board(name).title


def test_meminfo_shows_the_contiguous_memory():
    memory = BoardMemory(1 << 20)
    found = BoardFiles(BOARD, memory, lambda payload: None)
    buffer = memory.allocate(1 << 12)
    lines = [line.split() for line in found.read("/proc/meminfo").decode().splitlines()]
    assert lines == [["CmaTotal:", "1024", "kB"], ["CmaFree:", "1020", "kB"]]
    assert json.loads(found.read(BUFFERS)) == [[buffer.identifier, buffer.address, buffer.nbytes]]


def test_files_that_are_written_read_back_and_exist():
    found = files()
    found.write("/tmp/a", b"1")
    found.write("/lib/firmware/a.bin", b"2")
    assert [found.read(path) for path in ("/tmp/a", "/lib/firmware/a.bin")] == [b"1", b"2"]
    assert [found.exists(path) for path in ("/tmp/a", "/lib/firmware/a.bin", "/tmp/b")] == [True, True, False]


@pytest.mark.parametrize("path", ["/etc/passwd", "/tmp/../etc/passwd", "", "/proc/version", "/tmp/../lib/firmware/x"])
def test_nothing_else_is_written(path):
    assert refusal(files().write, path, b"x").startswith(
        "board file: path must lie in one of /lib/firmware/, /run/, /tmp/, got "
    )


def test_files_of_the_host_are_not_read():
    assert refusal(files().read, "/etc/passwd") == "board file: path must be that of a file, got '/etc/passwd'"


def test_what_is_stored_is_bounded(monkeypatch):
    monkeypatch.setattr(board_files, "_MOST_STORED", 10)
    found = files()
    found.write("/tmp/a", b"123456")
    found.write("/tmp/a", b"1234567890")
    assert refusal(found.write, "/tmp/b", b"1") == ("board file: files must be at most 64 with 10 bytes, got 2 with 11")


# --- programming ----------------------------------------------------------------------------------


def payload(config: Config = TINY, build: str = "0123456789ab") -> bytes:
    return virtual_bit(BOARD, config, build, "<hwh/>").payload


def as_bin(content: bytes) -> bytes:
    return np.frombuffer(content, ">u4").astype("<u4").tobytes()


def test_the_manager_configures_the_fabric_with_the_payload_in_order():
    seen = []
    found = files(program=seen.append)
    assert found.read(MANAGER + "state") == b"unknown\n"
    found.write("/lib/firmware/x.bin", as_bin(payload()))
    found.write(MANAGER + "flags", b"0")
    found.write(MANAGER + "firmware", b"x.bin")
    assert seen == [payload()]
    assert found.read(MANAGER + "state") == b"operating\n"


def test_a_bitstream_that_fails_leaves_an_error():
    def fail(content: bytes) -> None:
        machine_of(content, TINY)

    found = files(program=fail)
    found.write("/lib/firmware/x.bin", b"\0" * 8)
    assert refusal(found.write, MANAGER + "firmware", b"x.bin") == (
        "fabric: bitstream must be for the virtual board, got one for an FPGA"
    )
    assert found.read(MANAGER + "state") == b"write error\n"


def test_firmware_must_be_uploaded_whole_and_full():
    found = files()
    assert refusal(found.write, MANAGER + "firmware", b"x.bin") == (
        "board file: firmware must be uploaded first, got 'x.bin'"
    )
    assert refusal(found.write, MANAGER + "flags", b"1") == ("board file: flags must be 0, a full bitstream, got b'1'")
    found.write("/lib/firmware/x.bin", b"12345")
    assert refusal(found.write, MANAGER + "firmware", b"x.bin") == (
        "board file: bitstream must be whole words, got 5 bytes"
    )


def test_the_fingerprint_selects_the_machine():
    assert machine_of(payload(), Z1).config.name == "tiny"
    assert machine_of(payload(), Z1).build == "0123456789ab"
    assert machine_of(payload(), Z1, other="zcu104").config.name == "zcu104"


def test_a_configuration_that_nobody_knows_cannot_run():
    mine = replace(TINY, name="mine", acc_kib=2 * TINY.acc_kib)
    assert machine_of(payload(mine), mine).config == mine
    assert refusal(machine_of, payload(mine), TINY) == (
        f"fabric: bitstream must be of tiny ({TINY.fingerprint}) or of a preset, "
        f"got mine ({mine.fingerprint}); start the board with its configuration"
    )


def test_the_build_is_two_registers():
    assert build_numbers("0123456789ab") == (0x456789AB, 0x0123)
    assert refusal(build_numbers, "xyz") == "fabric: build of a bitstream must be 12 hexadecimal digits, got 'xyz'"

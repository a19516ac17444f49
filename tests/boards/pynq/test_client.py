# SPDX-License-Identifier: Apache-2.0
"""The unmodified client of PYNQ on a virtual board: overlay, registers, buffers, clocks, pins."""

from __future__ import annotations

import subprocess
import sys

import pytest
from helpers.virtual_boards import write_bitstream

from vdla.boards.board import board_names, load_board
from vdla.hardware.config import Config

pytest.importorskip("pynq", reason="pynq is not installed (make test-board)")

TINY = Config.preset("tiny")


def test_the_self_test_of_pynq_passes(address):
    command = [sys.executable, "-W", "ignore", "-m", "pynq.remote.selftest", "--ip", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "summary: 9 passed, 0 failed, 1 skipped" in done.stdout, done.stdout
    assert done.returncode == 0


def test_the_fabric_is_empty_until_a_bitstream_is_loaded(served, client):
    source = """
        from pynq import MMIO
        registers = MMIO(0x43C00000, 0x1000)
        try:
            registers.read(0)
        except RuntimeError as error:
            print(error)
    """
    assert client(served(), source) == ("fabric: a bitstream must be loaded before its registers are used, got none\n")


def test_an_overlay_gives_the_accelerator_with_its_registers(address, client, tmp_path):
    source = f"""
        from pynq import Overlay
        overlay = Overlay({str(write_bitstream(tmp_path, TINY))!r})
        accelerator = overlay.vdla_0
        print(sorted(overlay.ip_dict), hex(accelerator.read(0)), accelerator.register_map.VERSION[31:0])
        accelerator.register_map.COUNT = 5
        print(accelerator.read(0x2C))
        accelerator.write(0x2C, 0)
        accelerator.write(0x10, 1)
        while accelerator.read(0x14) & 1:
            pass
        print(accelerator.register_map.STATUS.done)
        try:
            accelerator.write(0, 1)
        except RuntimeError as error:
            print(error)
    """
    assert client(address, source).splitlines() == [
        "['axi_intc_0', 'processing_system7_0', 'vdla_0'] 0x56444c41 2",
        "5",
        "1",
        "fabric: write at 0x0 of the control port must be accepted, got SLVERR",
    ]


@pytest.mark.parametrize("name", board_names())
def test_every_board_is_programmed_by_its_overlay(served, client, tmp_path, name):
    board = load_board(name)
    bitstream = write_bitstream(tmp_path, board.config(), name)
    source = f"""
        from pynq import Clocks, Device, Overlay
        overlay = Overlay({str(bitstream)!r})
        words = [overlay.vdla_0.read(offset) for offset in (0xC, 0x8)]
        print(Device.active_device.name, Device.active_device.arch, f"{{words[0]:04x}}{{words[1]:08x}}")
        print(Clocks.fclk0_mhz, hex(overlay.ip_dict["vdla_0"]["phys_addr"]))
    """
    lines = client(served(board=name, config=board.config()), source).splitlines()
    arch = {"zynq7": "armv7l", "zynqmp": "aarch64"}[board.processor]
    assert lines[0].rsplit(" ", 2) == [board.title, arch, board.config().fingerprint]
    clock, base = lines[1].split()
    assert abs(float(clock) - board.clock_mhz) < 0.5
    assert int(base, 16) == board.control_base


def test_a_bitstream_that_changed_under_its_name_stays_the_old_one_as_on_a_board(served, client, tmp_path):
    """PYNQ sends nothing that has the name of a file on the board; the device `pynq` renames it."""
    source = f"""
        from pathlib import Path
        from pynq import Overlay
        from helpers.virtual_boards import write_bitstream
        from vdla.hardware.config import Config
        for build in ("000000000001", "000000000002"):
            bitstream = write_bitstream(Path({str(tmp_path)!r}), Config.preset("tiny"), build=build)
            print(Overlay(str(bitstream)).vdla_0.read(0x80))
    """
    assert client(served(), source) == "1\n1\n"


def test_buffers_of_all_sizes_come_back_as_they_went(address, client):
    source = """
        import numpy as np
        from pynq import allocate
        rng = np.random.default_rng(1)
        for shape, dtype in (((1,), "u1"), ((1000, 3), "i2"), ((5 << 20,), "u1"), ((2, 3), "f8")):
            data = rng.integers(0, 100, shape).astype(dtype)
            with allocate(shape, dtype) as buffer:
                buffer[:] = data
                buffer.flush()
                buffer[:] = 0
                buffer.invalidate()
                print((buffer == data).all(), buffer.physical_address % 4096, buffer.virtual_address > 0)
        try:
            allocate((1 << 29,), "u1")
        except Exception as error:
            print(error.details())
    """
    lines = client(address, source).splitlines()
    assert lines[:4] == ["True 0 True"] * 4
    assert lines[4] == (
        "contiguous memory: cannot allocate 536870912 bytes, 134217728 of 134217728 are free; "
        "free buffers or raise cma= on the kernel's command line"
    )


def test_clocks_and_pins_do_as_they_are_told(address, client):
    source = """
        from pynq import GPIO, Clocks, Device
        Clocks.fclk1_mhz = 50
        print(Clocks.fclk1_mhz, Clocks.cpu_mhz)
        pins = {"device": Device.active_device}
        first = GPIO.get_gpio_pin(0, **pins)
        pin = GPIO(first, "out", **pins)
        pin.write(1)
        print(first, GPIO.get_gpio_npins(**pins), pin.is_exported())
        pin.release()
        print(pin.is_exported(), GPIO(first, "in", **pins).read())
    """
    assert client(address, source).splitlines() == ["50.0 650.0", "960 118 True", "False 0"]

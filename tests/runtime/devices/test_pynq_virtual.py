# SPDX-License-Identifier: Apache-2.0
"""The device pynq through the unmodified client, on virtual boards with faults.

Each of these boards has a fault of its own, so the device is given its `target`.
"""

from __future__ import annotations

import _thread
import contextlib
import hashlib
import json
import threading

import numpy as np
import pytest
from helpers.small_programs import small_gemm
from helpers.virtual_boards import held_buffers, virtual_board, write_bitstream

from vdla.hardware.config import Config
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.pynq_device import PynqDevice
from vdla.runtime.devices.run import run
from vdla.simulator.simulate import simulate

TINY = Config.preset("tiny")
PROGRAM, INPUTS, EXPECTED = small_gemm(TINY)


@pytest.fixture
def with_fault(pynq_board):
    """`with_fault("slow=5")` is PYNQ's device of a board with the fault."""
    with contextlib.ExitStack() as stack:

        def start(*faults: str, fabric: str = "sim") -> object:
            from pynq.pl_server.remote_device import RemoteDevice

            return RemoteDevice(1, stack.enter_context(virtual_board(TINY, "pynq_z1", fabric, *faults)))

        yield start


def buffers(board) -> list[list[int]]:
    return json.loads(board.read_file("/proc/vdla/buffers"))


def message(function, *arguments, **options) -> str:
    with pytest.raises(DeviceError) as error:
        function(*arguments, **options)
    return str(error.value)


def test_a_closed_device_holds_nothing_on_the_board(pynq_board):
    with PynqDevice(TINY) as device:
        device.allocate(5)
        assert len(held_buffers()) == 1
    assert held_buffers() == []


def test_the_presets_of_the_boards_are_run(pynq_board, tmp_path):
    config = Config.preset("pynq_z1")
    program, inputs, expected = small_gemm(config)
    with PynqDevice(config, bitstream=write_bitstream(tmp_path, config)) as device:
        result = run(program, inputs, device)
    assert (result.outputs["out"] == expected).all()
    assert result.statistics.differences(simulate(program, inputs).statistics) == []


def test_a_bitstream_of_another_preset_is_named(with_fault):
    other = Config.preset("pynq_z1")
    assert message(PynqDevice, TINY, target=with_fault("other-bitstream=pynq_z1")) == (
        f"device pynq: fingerprint must be {TINY.fingerprint}, as the .hwh file says, got {other.fingerprint}; "
        "the .bit and the .hwh are of different builds: copy both from the same one"
    )


def test_a_bitstream_for_another_configuration_than_the_program(pynq_board, tmp_path):
    bitstream, other = write_bitstream(tmp_path, TINY), Config.preset("pynq_z1")
    assert message(PynqDevice, other, bitstream=bitstream) == (
        f"device pynq: fingerprint must be {other.fingerprint} (pynq_z1), got {TINY.fingerprint}, preset tiny's; "
        "compile for preset tiny, or load the bitstream of pynq_z1"
    )


def test_a_bitstream_of_other_sources_is_refused_unless_it_is_accepted(pynq_board, tmp_path):
    bitstream = write_bitstream(tmp_path, TINY, build="abcdef012345")
    text = message(PynqDevice, TINY, bitstream=bitstream)
    assert "got abcdef012345; build the bitstream again (vdla board vivado), or accept this one" in text
    with PynqDevice(TINY, bitstream=bitstream, accept_build="abcdef012345") as device:
        assert (run(PROGRAM, INPUTS, device).outputs["out"] == EXPECTED).all()


def test_a_bitstream_that_was_built_again_under_its_name_is_the_one_that_is_loaded(pynq_board, tmp_path):
    for build in ("abcdef012345", "012345abcdef", "abcdef012345"):
        bitstream = write_bitstream(tmp_path, TINY, build=build)
        with PynqDevice(TINY, bitstream=bitstream, accept_build=build) as device:
            assert device.driver.read_wide("BUILD") == int(build, 16)
            assert (run(PROGRAM, INPUTS, device).outputs["out"] == EXPECTED).all()


def test_a_bitstream_is_sent_once(pynq_board, tmp_path, monkeypatch):
    import pynq

    board, sent = pynq.Device.active_device, []
    monkeypatch.setattr(board, "write_file", recorded(board.write_file, sent))
    bitstream = write_bitstream(tmp_path, TINY, build="00000000abcd")
    for _ in range(2):
        with PynqDevice(TINY, bitstream=bitstream, accept_build="00000000abcd"):
            pass
    assert len([path for path in sent if path.startswith("/lib/firmware/tiny-")]) == 1


def recorded(write_file, sent):
    def record(path, content):
        sent.append(path)
        return write_file(path, content)

    return record


def test_a_bitstream_whose_upload_was_interrupted_is_sent_again(pynq_board, tmp_path):
    import pynq

    board = pynq.Device.active_device
    bitstream = write_bitstream(tmp_path, TINY, build="00000000abce")
    digest = hashlib.sha256(bitstream.read_bytes()).hexdigest()[:12]
    board.write_file(f"/lib/firmware/tiny-{digest}.bin", b"part")
    with PynqDevice(TINY, bitstream=bitstream, accept_build="00000000abce") as device:
        assert device.driver.read_wide("BUILD") == 0xABCE


def test_a_full_memory_says_how_much_there_is(with_fault):
    with PynqDevice(TINY, target=with_fault("full-memory=65536")) as device:
        text = message(device.allocate, 1 << 20)
        assert text.startswith("device pynq: cannot allocate 1048576 bytes of contiguous memory (")
        assert "KiB, 64 KiB of it free, this device holds 0 KiB; " in text
        assert text.endswith("end those that run, then restart the server of PYNQ.remote on the board")
        assert (run(PROGRAM, INPUTS, device).outputs["out"] == EXPECTED).all()


def test_a_run_beyond_its_seconds_is_reset_and_the_board_works_on(with_fault):
    board = with_fault("slow-fabric=700")
    with PynqDevice(TINY, target=board, timeout_s=0.2) as device:
        assert message(run, PROGRAM, INPUTS, device).startswith(
            "device pynq: the program has not ended after 0.2 s (cycle "
        )
        device.timeout_s = 20
        assert (run(PROGRAM, INPUTS, device).outputs["out"] == EXPECTED).all()
    assert buffers(board) == []


def test_ctrl_c_in_a_run_resets_the_board_which_works_on(with_fault):
    board = with_fault("slow-fabric=1500")
    with PynqDevice(TINY, target=board) as device:
        timer = threading.Timer(0.5, _thread.interrupt_main)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            run(PROGRAM, INPUTS, device)
        assert buffers(board) == []
        assert (run(PROGRAM, INPUTS, device).outputs["out"] == EXPECTED).all()


def test_a_bitstream_that_is_loaded_need_not_be_loaded_again(pynq_board):
    with PynqDevice(TINY):
        pass
    with PynqDevice(TINY, download=False) as device:
        assert (run(PROGRAM, INPUTS, device).outputs["out"] == EXPECTED).all()


def test_a_lost_interrupt_and_a_slow_board_change_no_result(with_fault):
    with PynqDevice(TINY, target=with_fault("lost-interrupt", "slow=2")) as device:
        assert (run(PROGRAM, INPUTS, device).outputs["out"] == EXPECTED).all()


def test_a_connection_that_drops_during_a_run_is_one_sentence(with_fault):
    board = with_fault("dropped-connection=2")
    device = PynqDevice(TINY, target=board)
    text = message(run, PROGRAM, INPUTS, device)
    assert text.startswith("device pynq: the connection to the board was lost at: ")
    assert text.endswith("; close the device and open it again") and "\n" not in text
    device.close()
    assert buffers(board) == []
    with PynqDevice(TINY, target=board) as again:
        assert (run(PROGRAM, INPUTS, again).outputs["out"] == EXPECTED).all()


def test_a_server_that_is_gone_is_one_sentence_and_closing_is_silent(pynq_board):
    from pynq.pl_server.remote_device import RemoteDevice

    with virtual_board(TINY) as address:
        device = PynqDevice(TINY, target=RemoteDevice(1, address))
        place = device.allocate(8)
        device.write(place, np.ones(8, np.uint8))
    text = message(run, PROGRAM, INPUTS, device)
    assert text.startswith("device pynq: the connection to the board was lost at: ")
    device.free(place)
    device.close()


@pytest.mark.rtl
def test_the_rtl_behind_the_board_gives_the_same_bits(with_fault):
    with PynqDevice(TINY, target=with_fault(fabric="rtl")) as device:
        result = run(PROGRAM, INPUTS, device)
    assert (result.outputs["out"] == EXPECTED).all()
    assert result.statistics.differences(simulate(PROGRAM, INPUTS).statistics) == []

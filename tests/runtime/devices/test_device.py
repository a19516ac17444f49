# SPDX-License-Identifier: Apache-2.0
"""The device protocol, on every device."""

from dataclasses import replace

import numpy as np
import pytest

from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_scale, requantise
from vdla.hardware.program import STREAM
from vdla.runtime.devices import ALIGNMENT, DEVICES, Device, DeviceError, open_device
from vdla.runtime.devices.run import run
from vdla.simulator.simulate import simulate
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.verify import VerifyError
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program

TINY = Config.preset("tiny")


REMOTE = "pynq://"  # a simulator behind a server
PRESENT = [pytest.param(name, marks=[pytest.mark.rtl] if name == "rtl" else []) for name in (*DEVICES, REMOTE)]


@pytest.fixture(params=PRESENT)
def name(request):
    """A device that is present; pynq is, with its client, on a virtual board."""
    if request.param == REMOTE:
        from vdla.runtime.remote.server import RemoteServer

        with RemoteServer("sim", TINY, "127.0.0.1:0") as server:
            yield str(server.address)
        return
    if request.param == "pynq":
        request.getfixturevalue("pynq_board")
    yield request.param


@pytest.fixture
def device(name):
    with open_device(name, TINY) as opened:
        yield opened


def product():
    """Program, arrays and expected output of a 6 x 8 x 8 product."""
    rng = np.random.default_rng(3)
    program = gemm_program(GemmTiling(TINY, 6, 8, 8, 2, 1))
    a, w = rng.integers(-128, 128, (6, 8)).astype(np.int8), rng.integers(-128, 128, (8, 8)).astype(np.int8)
    scales = pack_scale(rng.integers(-9, 9, 8), rng.integers(1, 999, 8), 16)
    expected = requantise(a.astype(np.int64) @ w.astype(np.int64).T, scales, 0, -128, 127)
    arrays = {
        "inp": a.reshape(6, 1, 2, 4).transpose(0, 2, 1, 3),
        "wgt": w.reshape(2, 4, 2, 4).transpose(0, 2, 1, 3),
        "scl": scales.view(np.int64).reshape(2, 4),
    }
    return program, arrays, expected.reshape(6, 1, 2, 4).transpose(0, 2, 1, 3)


def test_a_device_implements_the_protocol(device):
    assert isinstance(device, Device)
    assert device.name in DEVICES or device.name.startswith(REMOTE)
    assert replace(device.config, clock_mhz=TINY.clock_mhz) == TINY  # a board has a clock of its own


def test_memory_is_zeroed_aligned_and_keeps_writes(device):
    first, second = device.allocate(10), device.allocate(5000)
    assert first % ALIGNMENT == second % ALIGNMENT == 0
    assert not device.read(second, 5000).any()
    device.write(second + 7, np.arange(100, dtype=np.uint8))
    assert (device.read(second + 7, 100) == np.arange(100)).all()
    assert not device.read(first, 10).any()


def test_freed_memory_is_used_again_and_zero(device):
    first = device.allocate(100)
    device.write(first, np.ones(100, np.uint8))
    device.free(first)
    assert device.allocate(50) == first
    assert not device.read(first, 50).any()


def test_access_outside_of_a_block_is_refused(device):
    address = device.allocate(64)
    with pytest.raises(DeviceError) as error:
        device.read(address + 60, 5)
    assert str(error.value) == (
        f"device {device.name}: access must lie in one allocated block, got 5 bytes at {address + 60}"
    )
    with pytest.raises(DeviceError, match="access must lie in one allocated block"):
        device.write(address + ALIGNMENT, np.zeros(1, np.uint8))
    with pytest.raises(DeviceError, match="address to free must be one that allocate returned, got 12"):
        device.free(12)
    with pytest.raises(DeviceError, match="allocation in bytes must be at least 1, got 0"):
        device.allocate(0)


def test_a_program_gives_exact_results_and_the_same_statistics_each_time(device):
    program, arrays, expected = product()
    first, second = run(program, arrays, device), run(program, arrays, device)
    assert (first.outputs["out"] == expected).all()
    assert first.statistics.differences(second.statistics) == []
    if device.name != "pynq":  # a board counts cycles, but does not record when an instruction starts
        assert first.trace.table() == second.trace.table()
    for counters in first.statistics.counters.values():
        assert sum(counters.values()) == first.statistics.total_cycles


def test_statistics_of_a_device_equal_those_of_simulate(device):
    program, arrays, _ = product()
    assert run(program, arrays, device).statistics.differences(simulate(program, arrays).statistics) == []


def test_a_device_refuses_a_program_for_another_machine(device):
    program, _, _ = product()
    other = replace(program, config=replace(TINY, inp_kib=2))
    with pytest.raises(DeviceError, match="program was compiled for inp_kib=2, device has 1"):
        device.run(other, {})


def test_addresses_must_be_allocated(device):
    program, _, _ = product()
    with pytest.raises(DeviceError, match="addresses must include inp, got wgt"):
        device.run(program, {"wgt": 0})
    addresses = {tensor.name: 0 for tensor in program.tensors} | {STREAM: 0}
    with pytest.raises(DeviceError, match="access must lie in one allocated block"):
        device.run(program, addresses)


def test_a_closed_device_refuses_calls(name):
    device = open_device(name, TINY)
    device.close()
    device.close()
    program, arrays, _ = product()
    for use in (lambda: device.allocate(1), lambda: device.run(program, {}), lambda: run(program, arrays, device)):
        with pytest.raises(DeviceError) as error:
            use()
        assert str(error.value) == f"device {name}: device must be open, got a call after close"


def test_a_device_refuses_an_unsafe_program(device):
    program, arrays, _ = product()
    backwards = replace(program, words=program.words[::-1].copy(), tensor_of=program.tensor_of[::-1].copy())
    with pytest.raises(VerifyError):
        run(backwards, arrays, device)
    assert run(program, arrays, device).statistics.total_cycles > 0


def test_a_timeout_ends_a_program_and_prints_the_state(device):
    program, arrays, _ = product()
    with (
        open_device(device.name, TINY, timeout_cycles=100) as hasty,
        pytest.raises((DeviceError, SimulationError), match="the program has not ended after") as error,
    ):
        run(program, arrays, hasty)
    assert [line.split(":")[0] for line in str(error.value).splitlines()[1:]] == [
        "  fetch", "  load", "  compute", "  store", "  queues"
    ]  # fmt: skip


def test_a_timeout_is_the_largest_permitted_cycle_count(device):
    program, arrays, _ = product()
    total = simulate(program, arrays).statistics.total_cycles
    with open_device(device.name, TINY, timeout_cycles=total) as patient:
        assert run(program, arrays, patient).statistics.total_cycles == total
    with (
        open_device(device.name, TINY, timeout_cycles=total - 1) as hasty,
        pytest.raises((DeviceError, SimulationError), match="the program has not ended after"),
    ):
        run(program, arrays, hasty)


def test_a_stream_must_begin_at_a_beat(device):
    program, _, _ = product()
    addresses = {tensor.name: device.allocate(tensor.nbytes) for tensor in program.tensors}
    addresses[STREAM] = device.allocate(program.words.nbytes + 2) + 2
    with pytest.raises(DeviceError, match=f"address of {STREAM} must be a multiple of 4"):
        device.run(program, addresses)


def test_opening_an_unknown_device_lists_the_choices():
    with pytest.raises(DeviceError) as error:
        open_device("fpga", TINY)
    assert str(error.value) == f"device: name must be one of {', '.join(DEVICES)}, got fpga"


def test_a_full_memory_names_its_largest_gap():
    from vdla.runtime.devices.sim import SimDevice

    with SimDevice(TINY, 10_000) as device:
        device.allocate(5000)
        with pytest.raises(DeviceError) as error:
            device.allocate(5000)
    assert str(error.value) == (
        "device sim: cannot allocate 5000 bytes of DRAM, the largest gap has 1808; "
        "free tensors or open the device with more memory_bytes"
    )


def test_the_largest_gap_may_lie_between_blocks():
    from vdla.runtime.devices.sim import SimDevice

    with SimDevice(TINY, 5 * ALIGNMENT) as device:
        first = device.allocate(3 * ALIGNMENT)
        device.allocate(ALIGNMENT)
        device.free(first)
        with pytest.raises(DeviceError, match=f"the largest gap has {3 * ALIGNMENT};"):
            device.allocate(4 * ALIGNMENT)
        assert device.allocate(3 * ALIGNMENT) == first


def test_an_unknown_option_of_a_device_lists_the_known_ones():
    with pytest.raises(DeviceError) as error:
        open_device("sim", Config.preset("tiny"), memory=1 << 20)
    message = "device sim: option must be one of memory_bytes, timeout_cycles, got memory (did you mean memory_bytes?)"
    assert str(error.value) == message

# SPDX-License-Identifier: Apache-2.0
"""Programs anywhere in the machine's addresses: beyond 4 GiB, at any beat, up to the last one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from vdla.commands.arrays import with_random
from vdla.hardware.config import Config
from vdla.hardware.program import STREAM, ProgramError
from vdla.runtime.devices import ALIGNMENT, DeviceError, MemoryDevice
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.run import run, upload
from vdla.runtime.devices.sim import SimDevice
from vdla.simulator.timing import time_program
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program

TINY = Config.preset("tiny")
PROGRAM = gemm_program(GemmTiling(TINY, 6, 8, 8, 2, 1))
ARRAYS = with_random(PROGRAM, {}, 0)
SIZE = 1 << 16
WORD = 1 << 32
TOP = 1 << 40
LAST_BEAT = WORD * TINY.axi_bytes
OUT = PROGRAM.tensor("out").nbytes
PLACES = {
    "inp": WORD - 12,  # crosses 4 GiB
    "wgt": 3 * WORD + 4,
    "scl": 5 * ALIGNMENT + SIZE - 20,
    "uops": WORD + 4096 - 4,
    "out": LAST_BEAT - OUT,
    STREAM: TOP - PROGRAM.words.nbytes,
}


@pytest.fixture(params=["sim", pytest.param("rtl", marks=pytest.mark.rtl)])
def device(request: Any) -> Iterator[MemoryDevice]:
    opened = SimDevice(TINY, SIZE) if request.param == "sim" else RtlDevice(TINY, SIZE, assertions=True)
    with opened as device:
        yield device


def placed(device: MemoryDevice, places: dict[str, int]) -> tuple[Any, Any]:
    """Statistics and output of a run at these addresses."""
    with ExitStack() as stack:
        addresses = upload(
            PROGRAM, ARRAYS, device, stack, lambda name, nbytes: device.allocate_at(places[name], nbytes)
        )
        assert addresses == places
        stats = device.run(PROGRAM, addresses)
        return stats, device.read(addresses["out"], OUT)


def test_results_do_not_depend_on_addresses_and_times_follow_the_contract(device: MemoryDevice) -> None:
    assert {tensor.name for tensor in PROGRAM.tensors} | {STREAM} == set(PLACES)
    near = run(PROGRAM, ARRAYS, device)
    stats, out = placed(device, PLACES)
    assert (out == near.outputs["out"].reshape(-1).view(np.uint8)).all()
    assert stats.differences(time_program(PROGRAM, TINY, PLACES)) == []
    assert stats.total_cycles != near.statistics.total_cycles  # other bursts: pages are crossed elsewhere
    again = run(PROGRAM, ARRAYS, device)
    assert again.statistics.differences(near.statistics) == []


def test_a_placed_block_is_zero_and_keeps_writes(device: MemoryDevice) -> None:
    address = device.allocate_at(TOP - 8, 8)
    assert address == TOP - 8 and not device.read(address, 8).any()
    device.write(address + 1, np.arange(1, 4, dtype=np.uint8))
    assert device.read(address, 5).tolist() == [0, 1, 2, 3, 0]
    device.free(address)
    with pytest.raises(DeviceError, match="access must lie in one allocated block"):
        device.read(address, 1)


@pytest.mark.parametrize(
    ("address", "nbytes", "expected"),
    [
        (SIZE - 4, 4, f"address of 4 bytes must be from {SIZE} to {TOP - 4}, got {SIZE - 4}"),
        (TOP - 3, 4, f"address of 4 bytes must be from {SIZE} to {TOP - 4}, got {TOP - 3}"),
        (WORD + 90, 20, f"20 bytes at {WORD + 90} must not overlap a block, got 100 bytes at {WORD}"),
        (WORD - 1, 2, f"2 bytes at {WORD - 1} must not overlap a block, got 100 bytes at {WORD}"),
        (WORD, 0, "allocation in bytes must be at least 1, got 0"),
        ("a", 4, "address of an allocation must be an integer, got 'a'"),
    ],
)
def test_a_wrong_place_is_refused(device: MemoryDevice, address: Any, nbytes: int, expected: str) -> None:
    device.allocate_at(WORD, 100)
    with pytest.raises(DeviceError) as error:
        device.allocate_at(address, nbytes)
    assert str(error.value) == f"device {device.name}: {expected}"
    assert device.allocate_at(WORD + 100, 20) == WORD + 100


@pytest.mark.rtl
@pytest.mark.parametrize("name", ["inp", "scl", "uops", "out", STREAM])
def test_a_machine_reaches_nothing_beside_placed_blocks(name: str) -> None:
    """A tensor that is a beat shorter than what is accessed: the bus answers with an error."""
    with RtlDevice(TINY, SIZE, assertions=True) as device, ExitStack() as stack:
        addresses = upload(
            PROGRAM, ARRAYS, device, stack, lambda name, nbytes: device.allocate_at(PLACES[name], nbytes)
        )
        nbytes = PROGRAM.words.nbytes if name == STREAM else PROGRAM.tensor(name).nbytes
        linked = PROGRAM.link(addresses)
        device.write(addresses[STREAM], linked)
        device.free(addresses[name])
        device.allocate_at(addresses[name], nbytes - TINY.axi_bytes)
        if name == STREAM:
            device.write(addresses[STREAM], linked.reshape(-1)[: -TINY.axi_bytes])
        with pytest.raises(DeviceError, match=r"AXI (read|write) error"):
            device.execute(addresses[STREAM], len(PROGRAM))


@pytest.mark.parametrize(("name", "other"), [("out", "inp"), ("out", "wgt"), ("uops", "scl"), ("out", STREAM)])
def test_overlapping_places_are_refused_and_nothing_is_written(device: MemoryDevice, name: str, other: str) -> None:
    """The host may give any allocated addresses; the verifier takes tensors and stream as apart."""
    with ExitStack() as stack:
        addresses = upload(PROGRAM, ARRAYS, device, stack)
        before = device.memory.copy()
        shared = {**addresses, name: addresses[other]}
        with pytest.raises(ProgramError, match=f"^program {PROGRAM.name}: places of .* must not overlap, got "):
            device.run(PROGRAM, shared)
        assert np.array_equal(device.memory, before)


def test_a_tensor_that_crosses_the_last_beat_is_refused(device: MemoryDevice) -> None:
    """The machine's addresses would wrap to beat 0 within a transfer."""
    places = {**PLACES, "out": LAST_BEAT - OUT + TINY.axi_bytes}
    with pytest.raises(ProgramError, match=f"^program {PROGRAM.name}: address of out must be at most {PLACES['out']}"):
        placed(device, places)

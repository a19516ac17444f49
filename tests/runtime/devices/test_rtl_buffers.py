# SPDX-License-Identifier: Apache-2.0
"""The on-chip buffers that a device shows: the RTL's equal the simulator's after a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vdla.commands.arrays import with_random
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import MicroOp, encode_uops
from vdla.hardware.numerics import pack_elements
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.rtl_buffers import buffer_contents
from vdla.runtime.devices.run import run
from vdla.runtime.devices.sim import SimDevice
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program

TINY, INT4 = Config.preset("tiny"), Config.preset("int4")
PIPELINE = "TOP.vdla.u_core.u_compute.u_pipeline"
SIZE = 1 << 16


def memories(config: Config, rng: np.random.Generator) -> tuple[dict[str, np.ndarray], dict[Buffer, np.ndarray]]:
    """Random memories as the model names them, and the entries that they hold."""
    beat, found, expected = config.axi_bytes, {}, {}
    places = {
        Buffer.INP: (f"{PIPELINE}.u_inp", max(config.inp_entry_bytes, config.out_entry_bytes), beat),
        Buffer.WGT: (f"{PIPELINE}.u_wgt", config.wgt_entry_bytes, beat),
        Buffer.SCL: (f"{PIPELINE}.u_emit.u_scl", config.scl_entry_bytes, beat),
        Buffer.OUT: (f"{PIPELINE}.u_emit.u_out", config.acc_entry_bytes, config.out_entry_bytes),
    }
    for buffer, (name, row_bytes, lane_bytes) in places.items():
        packed = rng.integers(0, 256, (config.depths[buffer] * config.entry_bytes[buffer]), np.uint8)
        rows = packed.reshape(-1, row_bytes)
        for lane in range(row_bytes // lane_bytes):
            part = rows[:, lane * lane_bytes : (lane + 1) * lane_bytes]
            found[f"{name}.u_ram.gen_lane[{lane}].gen_memory"] = np.ascontiguousarray(part)
        expected[buffer] = packed.reshape(-1, config.entry_bytes[buffer])
    sums = rng.integers(-(1 << 31), 1 << 31, (config.acc_depth, config.batch * config.block_out)).astype(np.int32)
    for half, part in enumerate(np.split(sums.view(np.uint8), 2)):
        for lane in range(config.acc_entry_bytes // beat):
            name = f"{PIPELINE}.u_accumulator.gen_half[{half}].u_ram.gen_lane[{lane}].gen_memory"
            found[name] = np.ascontiguousarray(part[:, lane * beat : (lane + 1) * beat])
    micro_ops = [MicroOp(at % config.acc_depth, at % 5, at % 3, at % 2, 1) for at in range(config.uop_depth)]
    table = encode_uops(config, micro_ops)
    for at in range(config.uop_entry_bytes // beat):
        part = np.ascontiguousarray(table[:, at * beat : (at + 1) * beat])
        used = next((width for width in (4, 8) if not part[:, width:].any()), beat)  # the model keeps used bytes
        name = f"TOP.vdla.u_core.u_compute.u_uop.gen_beat[{at}].gen_kept.u_ram.gen_lane[0].gen_memory"
        found[name] = np.ascontiguousarray(part[:, :used])
    expected[Buffer.ACC] = sums
    expected[Buffer.UOP] = np.array([(m.acc, m.src, m.wgt, m.first, m.last) for m in micro_ops], np.int64)
    return found, expected


@pytest.mark.parametrize("config", [TINY, INT4, Config.preset("batch4")], ids=lambda config: config.name)
def test_memories_are_entries_of_elements(config: Config) -> None:
    found, expected = memories(config, np.random.default_rng(5))
    contents = buffer_contents(config, found)
    assert set(contents) == set(Buffer)
    for buffer in (Buffer.ACC, Buffer.UOP, Buffer.OUT):
        assert np.array_equal(contents[buffer], expected[buffer]), buffer.name
    assert np.array_equal(contents[Buffer.SCL].view(np.uint8), expected[Buffer.SCL])
    for buffer, bits in ((Buffer.INP, config.inp_bits), (Buffer.WGT, config.wgt_bits)):
        elements = contents[buffer]
        assert elements.dtype == np.int8 and len(elements) == config.depths[buffer]
        packed = elements.view(np.uint8) if bits == 8 else pack_elements(elements.reshape(-1), bits)
        assert np.array_equal(packed.reshape(-1), expected[buffer].reshape(-1)), buffer.name


def test_an_unknown_or_missing_memory_is_named() -> None:
    found, _ = memories(TINY, np.random.default_rng(5))
    with pytest.raises(DeviceError) as error:
        buffer_contents(TINY, {**found, "TOP.vdla.u_other.u_ram.gen_lane[0].gen_memory": np.zeros((4, 4), np.uint8)})
    wanted = "device rtl: memory must be a lane of a buffer, got TOP.vdla.u_other.u_ram.gen_lane[0].gen_memory"
    assert str(error.value) == wanted
    del found[f"{PIPELINE}.u_wgt.u_ram.gen_lane[3].gen_memory"]
    with pytest.raises(DeviceError) as error:
        buffer_contents(TINY, found)
    assert str(error.value) == "device rtl: memories of wgt must have 1024 bytes, got 768"


# --- devices --------------------------------------------------------------------------------------


def product(config: Config) -> tuple[Any, Any]:
    program = gemm_program(GemmTiling(config, 6, 8, 8, 2, 1))
    return program, with_random(program, {}, 0)


def same(ours: Any, theirs: Any) -> list[str]:
    """The buffers that differ."""
    return [buffer.name for buffer in Buffer if not np.array_equal(ours[buffer], theirs[buffer])]


@pytest.mark.rtl
def test_the_buffers_of_the_rtl_equal_the_simulators_after_a_run() -> None:
    program, arrays = product(TINY)
    with SimDevice(TINY, SIZE) as sim, RtlDevice(TINY, SIZE, assertions=True) as rtl:
        assert same(sim.contents(), rtl.contents()) == []
        for device in (sim, rtl):
            run(program, arrays, device)
        assert same(sim.contents(), rtl.contents()) == []
        assert all(rtl.contents()[buffer].any() for buffer in Buffer)


@pytest.mark.rtl
def test_a_seed_decides_the_registers_at_power_up() -> None:
    program, arrays = product(TINY)

    def opened(start: int | None) -> Any:
        with RtlDevice(TINY, SIZE, assertions=True, start=start) as device:
            contents = device.contents()
            return contents, run(program, arrays, device)

    zero, one, again, two = (opened(start) for start in (None, 1, 1, 2))
    assert not any(zero[0][buffer].any() for buffer in Buffer)
    assert same(one[0], again[0]) == []
    assert len(same(one[0], two[0])) == len(Buffer)
    for contents in (one[0], two[0]):  # about half of all bits are set
        assert 0.45 < np.unpackbits(contents[Buffer.ACC].view(np.uint8)).mean() < 0.55
    for _, result in (one, two):
        assert (result.outputs["out"] == zero[1].outputs["out"]).all()
        assert result.statistics.differences(zero[1].statistics) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"start": 3}, "start must be left out without assertions, got 3"),
        ({"start": 0, "assertions": True}, "seed of the start must be an integer from 1 to 2147483647, got 0"),
        ({"start": "x", "assertions": True}, "seed of the start must be an integer from 1 to 2147483647, got 'x'"),
    ],
)
def test_a_wrong_start_is_refused(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(DeviceError) as error:
        RtlDevice(TINY, SIZE, **options)
    assert str(error.value) == f"device rtl: {expected}"


def test_only_devices_that_take_buffers_are_given_some() -> None:
    with SimDevice(TINY, SIZE) as sim:
        assert sim.takes_contents and not RtlDevice.takes_contents
        contents = {buffer: array + 1 for buffer, array in sim.contents().items()}
        program, arrays = product(TINY)
        sim.begin_with(contents)
        begun = run(program, arrays, sim)
        after = sim.contents()
        assert (after[Buffer.INP] == 1).any() and (after[Buffer.WGT] == 1).any()  # entries that nothing wrote
        assert begun.statistics.differences(run(program, arrays, sim).statistics) == []
        assert not (sim.contents()[Buffer.WGT][-1] == 1).any()  # only one run begins with them

# SPDX-License-Identifier: Apache-2.0
"""ALU, requantiser lane and GEMM core against NumPy, on extreme and random values."""

from collections import deque

import cocotb
import numpy as np
import pytest
from helpers.rtl.rtl_bench import Bench, config, seeds
from helpers.rtl.rtl_runner import simulate
from helpers.vector_arithmetic import vector_op, vector_start

from vdla.hardware.isa import VectorOp
from vdla.hardware.numerics import pack_elements, pack_scale, requantise, wrap32

REQUANTISE_LATENCY = 8
ZERO_POINT_DELAY, CLIPS_DELAY = 6, 7
EXTREMES = (0, 1, -1, 2, 31, 32, 33, (1 << 31) - 1, -(1 << 31), 1 - (1 << 31), 1 << 16, -(1 << 16), 0x55555555)


@pytest.mark.rtl
def test_the_alu_passes_its_bench():
    simulate("alu_case", __file__)


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("name", ["tiny", "int4"])
def test_the_requantiser_lane_passes_its_bench(name):
    simulate("vdla_requantise_lane", __file__, name)


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("name", ["tiny", "int4"])
def test_the_gemm_core_passes_its_bench(name):
    simulate("vdla_gemm_core", __file__, name)


def only(dut, name):
    """Whether the test applies to this module, since the file has tests of several."""
    return dut._name == name


def int32s(rng, count):
    wide = rng.integers(-(1 << 31), 1 << 31, count)
    narrow = rng.integers(-40, 41, count)
    extreme = rng.choice(np.array(EXTREMES), count)
    return np.select([rng.random(count) < 0.4, rng.random(count) < 0.5], [wide, narrow], extreme)


def signed(value, bits):
    return value - (1 << bits) if value >> bits - 1 else value


@cocotb.test()
async def alu_operations_equal_numpy(dut):
    if not only(dut, "alu_case"):
        return
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(1, dut):
        before = None  # the result appears a cycle after the operands
        for op in VectorOp:
            for start in (0, 1):
                old, x, b = (int32s(rng, 400) for _ in range(3))
                expected = vector_start(op, x, b) if start else vector_op(op, old, x, b)
                bench["op_i"], bench["start_i"] = op, start
                for row in zip(old.tolist(), x.tolist(), b.tolist(), expected.tolist(), strict=True):
                    bench["old_i"], bench["x_i"], bench["b_i"] = (value & 0xFFFFFFFF for value in row[:3])
                    await bench.cycle()
                    if before is not None:
                        assert signed(bench["new_o"], 32) == before[-1], before
                    before = (op, start, *row)


@cocotb.test()
async def requantiser_lane_equals_numerics(dut):
    if not only(dut, "vdla_requantise_lane"):
        return
    bits = config().out_bits
    half, mask = 1 << bits - 1, (1 << bits) - 1
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(1, dut):
        zeros, clips = deque([0] * ZERO_POINT_DELAY), deque([(0, 0)] * CLIPS_DELAY)
        due = deque([None] * REQUANTISE_LATENCY)
        for _ in range(4000):
            total, bias = int32s(rng, 2)
            mult = int(rng.choice([0, 1, (1 << 24) - 1, rng.integers(1 << 24), 1 << rng.integers(24)]))
            ties = mult.bit_length()  # shifts a power of two to 1/2
            shift = int(rng.choice([0, 1, 63, rng.integers(64), rng.integers(16, 32), ties]))
            zero, low, high = (int(v) for v in np.sort(rng.integers(-half, half, 3))[[1, 0, 2]])
            zeros.append(zero)
            clips.append((low, high))
            due.append((requantise(total, pack_scale(bias, mult, shift), zero, low, high, bits).item(), total + bias))
            bench["sum_i"], bench["bias_i"] = int(total) & 0xFFFFFFFF, int(bias) & 0xFFFFFFFF
            bench["mult_i"], bench["shift_i"] = mult, shift
            late = {"zero_point_i": zeros.popleft()}
            late["clip_lo_i"], late["clip_hi_i"] = clips.popleft()
            for name, value in late.items():
                bench[name] = value & mask
            await bench.cycle()
            expected = due.popleft()
            if expected is not None:
                assert signed(bench["result_o"], bits) == expected[0]
            raw = mult == 1 and shift == 0
            due[-1] = (due[-1][0], wrap32(total + bias).item() if raw else None)
            if expected is not None and expected[1] is not None:
                assert signed(bench["raw_o"], 32) == expected[1]


@cocotb.test()
async def gemm_core_equals_matrix_products(dut):
    if not only(dut, "vdla_gemm_core"):
        return
    machine = config()
    latency = 3 + (machine.block_in - 1).bit_length()
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(1, dut):
        due = deque([None] * latency)
        for _ in range(1500):
            inputs = elements(rng, (machine.batch, machine.block_in), machine.inp_bits)
            weights = elements(rng, (machine.block_out, machine.block_in), machine.wgt_bits)
            bench["inp_i"] = packed(inputs, machine.inp_bits)
            bench["wgt_i"] = packed(weights, machine.wgt_bits)
            due.append(packed32(inputs @ weights.T))
            await bench.cycle()
            expected = due.popleft()
            assert expected is None or bench["sums_o"] == expected


def elements(rng, shape, bits):
    half = 1 << bits - 1
    kind = rng.integers(4)
    if kind == 0:
        return np.full(shape, -half)
    if kind == 1:
        return rng.choice([-half, half - 1], shape)
    return rng.integers(-half, half, shape)


def packed(values, bits):
    return int.from_bytes(pack_elements(values, bits).tobytes(), "little")


def packed32(values):
    return int.from_bytes(values.astype("<i4").tobytes(), "little")

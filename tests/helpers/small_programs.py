# SPDX-License-Identifier: Apache-2.0
"""Small hand-written programs for tests of the simulator and of devices."""

import numpy as np

from vdla.hardware.numerics import pack_scale, requantise
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program


def small_gemm(config):
    """(program, arrays, expected output) of a product in 3 x 2 tiles."""
    rows = columns = 2
    m, n, k = 3 * rows * config.batch, 2 * columns * config.block_out, 4 * config.block_in
    return gemm_program(GemmTiling(config, m, n, k, rows, columns)), *operands(config, m, n, k)


def operands(config, m, n, k):
    rng = np.random.default_rng(1)
    bi, bo, batch = config.block_in, config.block_out, config.batch
    top, wtop = 1 << (config.inp_bits - 1), 1 << (config.wgt_bits - 1)
    a = rng.integers(-top, top, (m, k)).astype(np.int8)
    w = rng.integers(-wtop, wtop, (n, k)).astype(np.int8)
    scales = pack_scale(rng.integers(-50, 50, n), rng.integers(1, 1 << 16, n), 20)
    out = requantise(a.astype(np.int64) @ w.astype(np.int64).T, scales, 0, -top, top - 1, config.out_bits)
    arrays = {
        "inp": a.reshape(-1, batch, k // bi, bi).transpose(0, 2, 1, 3),
        "wgt": w.reshape(-1, bo, k // bi, bi).transpose(0, 2, 1, 3),
        "scl": scales.view(np.int64).reshape(-1, bo),
    }
    return arrays, out.reshape(-1, batch, n // bo, bo).transpose(0, 2, 1, 3)

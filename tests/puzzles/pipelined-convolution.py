# SPDX-License-Identifier: Apache-2.0
from vdla import Buffer
from vdla.intrinsics import dma, gemm, requantise


def schedule(s, config):
    """Schedules the loop nest of y; print(s) shows it after any line."""
    inputs, weights = s.cache_read("y", "x", "inp"), s.cache_read("y", "w", "wgt")
    results = s.cache_write("y", "acc")
    output = s.cache_write(results, "out")
    h, row = s.split("h", factor=4)
    s.reorder("n", h, "k", row, "v", "dy", "dx", "r", "o", "i")
    s.vthread("k")
    s.compute_at(inputs, "k")
    s.compute_at(weights, "k")
    s.reverse_compute_at(results, h)
    s.reverse_compute_at(output, h)
    s.tensorize(inputs, dma.load(config, Buffer.INP))
    s.tensorize(weights, dma.load(config, Buffer.WGT))
    s.tensorize("y", gemm.gemm(config))
    s.tensorize(results, requantise.raw(config))
    s.tensorize(output, dma.store(config, raw=True))

# SPDX-License-Identifier: Apache-2.0
from vdla import Buffer
from vdla.intrinsics import dma, gemm, requantise


def schedule(s, config):
    """Schedules the loop nest of c; print(s) shows it after any line."""
    inputs, weights = s.cache_read("c", "a", "inp"), s.cache_read("c", "b", "wgt")
    results = s.cache_write("c", "acc")
    output = s.cache_write(results, "out")
    n, block = s.split("n", factor=4)
    m, row = s.split("m", factor=16)
    k, step = s.split("k", factor=4)
    s.reorder(n, m, k, step, block, row, "r", "o", "i")
    s.vthread(k)
    s.compute_at(inputs, k)
    s.compute_at(weights, k)
    s.reverse_compute_at(results, m)
    s.reverse_compute_at(output, m)
    s.tensorize(inputs, dma.load(config, Buffer.INP))
    s.tensorize(weights, dma.load(config, Buffer.WGT))
    s.tensorize("c", gemm.gemm(config))
    s.tensorize(results, requantise.raw(config))
    s.tensorize(output, dma.store(config, raw=True))

"""A matrix product as a tensor expression, scheduled by hand, with one and with two virtual threads.

Elements are in the packed layouts of the machine: `a[k, m]` is a row of 16 inputs, `b[n, k]` a block of 16 x 16 weights.
"""

import numpy as np

from vdla.compiler import te
from vdla.compiler.compile import compile_function
from vdla.compiler.intrinsics import dma, gemm, requantise
from vdla.compiler.schedule import Schedule
from vdla.compiler.tensorize import tensorize
from vdla.hardware.config import Buffer, Config
from vdla.hardware.program import Program
from vdla.simulator.simulator import simulate

CONFIG = Config.preset("pynq_z1")
ROWS, BLOCK = 128, 16
INS = OUTS = 16  # blocks of channels

# 1. What is computed.
a = te.placeholder((INS, ROWS, 1, BLOCK), "int8", "a")
b = te.placeholder((OUTS, INS, BLOCK, BLOCK), "int8", "b")
k, i = te.reduce_axis(INS, "k"), te.reduce_axis(BLOCK, "i")
c = te.compute(
    (OUTS, ROWS, 1, BLOCK),
    lambda n, m, r, o: te.sum(te.cast("int32", a[k, m, r, i]) * te.cast("int32", b[n, k, o, i]), axis=[k, i]),
    "c",
)


def scheduled(threads: int) -> Program:
    """2. How: half of the rows stay on the chip while the blocks of weights pass by."""
    s = Schedule(te.create_function([a, b], [c], "matmul"))
    inputs, weights = s.cache_read("c", "a", "inp"), s.cache_read("c", "b", "wgt")
    results = s.cache_write("c", "acc")
    output = s.cache_write(results, "out")
    half, row = s.split("m", factor=ROWS // 2)
    n, thread = s.split("n", factor=threads)
    s.reorder(half, n, thread, row, "k", "r", "o", "i")
    if threads > 1:
        s.vthread(thread)
    s.compute_at(inputs, half)
    s.compute_at(weights, thread)
    s.reverse_compute_at(results, row)
    s.reverse_compute_at(output, thread)
    for block in ("c", results):
        s.annotate(block, "store_at", thread)
    for block, loop, intrinsic in (
        (inputs, -2, dma.load(CONFIG, Buffer.INP)),
        (weights, -2, dma.load(CONFIG, Buffer.WGT)),
        ("c", -3, gemm.gemm(CONFIG)),
        (results, -2, requantise.raw(CONFIG)),
        (output, -2, dma.store(CONFIG, raw=True)),
    ):
        s.fn = tensorize(s.fn, s.loops(block)[loop], intrinsic)
    return compile_function(CONFIG, s.fn)


def main() -> None:
    """3. Run it, check it, look at the cycles."""
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.integers(-128, 128, t.shape, np.int8) for t in (a, b)}
    expected = np.einsum("kmri,nkoi->nmro", arrays["a"].astype(np.int32), arrays["b"].astype(np.int32))
    for threads in (1, 2):
        result = simulate(scheduled(threads), arrays)
        assert result.stats is not None
        assert np.array_equal(result.outputs["c"], expected)
        print(f"{threads} threads: {result.stats.total_cycles:,} cycles, {result.stats.utilisation:.1%} of the peak")


if __name__ == "__main__":
    main()

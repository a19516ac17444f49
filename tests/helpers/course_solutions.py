# SPDX-License-Identifier: Apache-2.0
"""Solutions of the course's exercises: notebook -> exercise -> the source of its cell."""

from __future__ import annotations

from collections.abc import Mapping

SOLUTIONS: Mapping[str, Mapping[str, str]] = {
    "decoupled": {
        "exercise-1": "tokens = 4 + 2 + 4 + 2",
        "exercise-2": '''
untied = HEAD.format(tiles=2) + """\\
load inp dram=x x_size=64 signal=compute
gemm init=1 uop_end=4 loop1=16 acc1=1 src1=1 emit=raw wait=load signal=load,store
store dram=y x_size=64 wait=compute signal=compute
load inp dram=x+64 x_size=64 wait=compute signal=compute
gemm init=1 uop_end=4 loop1=16 acc1=1 src1=1 emit=raw wait=load,store signal=store
store dram=y+64 x_size=64 wait=compute
"""
''',
        "exercise-3": "enough = 2",
        "exercise-4": "per_tile = 176",
    },
    "roofline": {
        "exercise-1": """
def operations_a_byte(rows):
    return 2 * rows * 256 * 256 / (256 * 256 + rows * 256 + 2048)
""",
        "exercise-2": "enough_rows = 38",
        "exercise-3": "least_cycles = 56 * 56 * 64 * 64 * 9 // 256",
        "exercise-4": "slowest = 4",
    },
    "tiling": {
        "exercise-1": """
def tensor_bytes(rows, blocks):
    strips = 28 // rows
    window_rows = 28 + 2 * (strips - 1)  # two rows are read twice at each border between strips
    return 8 // blocks * window_rows * 28 * 128 + strips * 128 * 128 * 9
""",
        "exercise-2": "most_rows = 2048 // (28 * 4)",
        "exercise-3": "best = (14, 2)",
        "exercise-4": "mine = tiles(7, 8, keep_weights=True)",
    },
    "latency_hiding": {
        "exercise-1": 'busy = two.statistics.counters["compute"]["busy"]',
        "exercise-2": "entries = [64, 128, 256]",
        "exercise-3": "fastest, saved = 2, 1792",
        "exercise-4": "hidden = 80",
    },
    "quantisation": {
        "exercise-1": """
def to_int8(x, scale):
    return np.clip(np.rint(x / scale), -128, 127).astype(np.int8)
""",
        "exercise-2": """
def squared_error(share):
    scale = share / 100 * largest / 7
    return np.sum((x - integers(x, scale, 4) * scale) ** 2)


percent = min(range(20, 101), key=squared_error)
""",
        "exercise-3": "multiplier, shift = round(0.05 * 0.002 / 0.08 * 2**33), 33",
        "exercise-4": """
bias = np.linspace(-2, 2, 32)
bias_integers = np.rint(bias / (sx * each[:, 0])).astype(np.int32)
""",
    },
    "tensorization": {
        "exercise-1": """
shape = (16, *entry)
first, second = te.placeholder(shape, "int8", "first"), te.placeholder(shape, "int8", "second")
start = te.compute(shape, lambda p, b, o: te.cast("int32", first[p, b, o]), "start")
total = te.compute(shape, lambda p, b, o: start[p, b, o] + te.cast("int32", second[p, b, o]), "total")
results = te.compute(shape, lambda p, b, o: total[p, b, o], "results")
output = te.compute(shape, lambda p, b, o: results[p, b, o], "output")


def sums():
    s = Schedule(te.create_function([first, second], [output], "sums"))
    loads = [s.cache_read("start", "first", "inp"), s.cache_read("total", "second", "inp")]
    for stage, scope in (("start", "acc"), ("total", "acc"), ("results", "out")):
        s.set_scope(stage, scope)
    for load in loads:
        s.tensorize(load, dma.load(machine, Buffer.INP))
    s.tensorize("start", vector.move(machine, Operand.SRC))
    s.tensorize("total", vector.in_place(machine, VectorOp.ADD, Operand.SRC))
    s.tensorize("results", requantise.raw(machine))
    s.tensorize("output", dma.store(machine, raw=True))
    return s
""",
        "exercise-2": "share = 5 / 8 * 6 / 8",
        "exercise-3": """
def lower_bounded(nest):
    def adds(fields):
        return isa.Vector(VectorOp.ADD, Operand.SRC, Source.INP, **fields)

    def bounds(fields):
        return isa.Vector(VectorOp.MIN, Operand.IMM, Source.ACC, 100, **fields)

    yield from fold_compute(nest, ComputeFields("acc", "x"), adds)
    yield from fold_compute(nest, ComputeFields("acc"), bounds)
""",
        "exercise-4": "steps = 64 * 2 * 9",
    },
    "rtl": {
        "exercise-1": """
def predicted(rows):
    return rows + measured[1] - 1
""",
        "exercise-2": """
on_simulator, on_rtl = compared(layer.program, arrays, late).first_difference.cycles
""",
        "exercise-3": "read_latency = 23",
        "exercise-4": "percent = 37.2",
    },
    "codesign": {
        "exercise-1": "steps, wide_steps = 128 * (32 // 16) * (64 // 16), 128 * (32 // 16) * (64 // 32)",
        "exercise-2": "slower = 34",
        "exercise-3": """
text = Path("largest.py").read_text()
text = text.replace("te.max(te.abs(wide(inp[b, i]) - wide(wgt[o, i])), axis=i)",
                    "te.sum(te.minimum(te.abs(wide(inp[b, i]) - wide(wgt[o, i])), 1), axis=i)")
Path("hamming.py").write_text(text.replace('name="largest"', 'name="hamming"'))
""",
        "exercise-4": """
def counts(products, x, w):
    return x.sum(axis=1, dtype=int)[:, None] + w.sum(axis=1, dtype=int) - 2 * products
""",
    },
}

"""Random linked instructions whose tokens are right in stream order: for the timing tests, which need no data.

Every pop has its push earlier in the stream and no queue ever holds more than the smallest depth, so the stream's own
order is a valid execution and nothing hangs.
"""

import numpy as np

from vdla.hardware.config import MIN_TOKEN_DEPTH, Config, Dram
from vdla.hardware.isa import Buffer, Gemm, Load, Operand, Source, Store, Sync, Unit, Vector, VectorOp, unit_of

LINKS = {  # unit -> side -> (queue popped, queue pushed)
    Unit.LOAD: {"next": (1, 0)},
    Unit.COMPUTE: {"prev": (0, 1), "next": (3, 2)},
    Unit.STORE: {"prev": (2, 3)},
}


def random_config(rng):
    shapes = [
        {"axi_bits": 64},
        {
            "axi_bits": 32,
            "block_in": 4,
            "block_out": 4,
            "inp_kib": 1,
            "wgt_kib": 1,
            "scl_kib": 1,
            "uop_kib": 1,
            "acc_kib": 1,
            "out_kib": 1,
        },
        {"axi_bits": 128, "block_out": 32},
        {"axi_bits": 64, "inp_bits": 4, "wgt_bits": 2, "batch": 2},
    ]
    dram = Dram(
        read_latency=int(rng.choice([1, 2, 5, 20, 60])),
        write_latency=int(rng.choice([1, 3, 20])),
        outstanding_reads=int(rng.choice([1, 2, 3, 8])),
        outstanding_writes=int(rng.choice([1, 2, 8])),
        beat_cycles=int(rng.choice([1, 1, 2, 3])),
        burst_gap=int(rng.choice([0, 0, 1, 4])),
    )
    return Config(
        name="random",
        **shapes[rng.integers(len(shapes))],
        dram=dram,
        burst_beats=int(rng.choice([1, 2, 3, 4, 16, 64, 256])),
        command_depth=int(rng.choice([4, 5, 16])),
        token_depth=int(rng.choice([8, 9, 16])),
    )


def random_stream(rng, config, count):
    """Instructions with tokens; `dram` fields are absolute."""
    queues = [0, 0, 0, 0]
    favour = rng.dirichlet([1, 1, 1])
    wish = rng.uniform(0.1, 0.9)
    return [_with_tokens(rng, random_instruction(rng, config, favour), queues, wish) for _ in range(count)]


def _with_tokens(rng, make, queues, wish):
    instruction = make()
    bits = {}
    for side, (popped, pushed) in LINKS[unit_of(instruction)].items():
        if queues[popped] > 0 and rng.random() < wish:
            queues[popped] -= 1
            bits[f"pop_{side}"] = 1
        if queues[pushed] < MIN_TOKEN_DEPTH and rng.random() < wish:
            queues[pushed] += 1
            bits[f"push_{side}"] = 1
    return make(**bits)


def _dma(rng, zero_allowed):
    low = 0 if zero_allowed else 1
    x, y = (int(v) for v in rng.integers(low, 5, 2))
    z = int(rng.integers(1, 3))
    return {"z_size": z, "y_size": y, "x_size": x}


def _strides(rng, config, sizes, entry_bytes):
    row = sizes["x_size"] * entry_bytes // config.axi_bytes
    y_stride = int(rng.choice([row, row, row + 3]))
    z_stride = int(rng.choice([y_stride * sizes["y_size"], y_stride * sizes["y_size"] + 1]))
    return {"dram": int(rng.integers(0, 1200)), "y_stride": y_stride, "z_stride": z_stride}


def random_instruction(rng, config, favour):
    unit = Unit(int(rng.choice(3, p=favour)))
    kind = int(rng.integers(10))
    if kind == 0:
        return lambda **bits: Sync(unit, **bits)
    if unit == Unit.STORE:
        sizes = _dma(rng, False)
        fields = {**sizes, **_strides(rng, config, sizes, config.out_entry_bytes)}
        return lambda **bits: Store(**fields, **bits)
    if unit == Unit.LOAD or kind < 3:
        fields = _random_load(rng, config, unit)
        return lambda **bits: Load(**fields, **bits)
    return _random_core(rng, kind)


def _random_load(rng, config, unit):
    buffers = [Buffer.INP, Buffer.WGT, Buffer.SCL] if unit == Unit.LOAD else [Buffer.UOP, Buffer.ACC]
    buffer = buffers[rng.integers(len(buffers))]
    widen = int(buffer == Buffer.ACC and rng.random() < 0.5)
    pads = {}
    if buffer in (Buffer.INP, Buffer.ACC) and rng.random() < 0.5:
        pads = {name: int(rng.integers(0, 3)) for name in ("y_before", "y_after", "x_before", "x_after")}
    sizes = _dma(rng, sum(pads.values()) > 0 and min(pads["y_before"], pads["x_before"]) > 0)
    entry = config.out_entry_bytes if widen else config.entry_bytes[buffer]
    where = _strides(rng, config, sizes, entry) if sizes["x_size"] and sizes["y_size"] else {}
    return {"buffer": buffer, "widen": widen, **sizes, **pads, **where}


def _random_core(rng, kind):
    begin = int(rng.integers(0, 3))
    fields = {
        "uop_begin": begin,
        "uop_end": begin + int(rng.integers(1, 5)),
        "loop0": int(rng.integers(1, 4)),
        "loop1": int(rng.choice([1, 1, 2, 9])),
    }
    if kind < 7:
        return lambda **bits: Gemm(**fields, **bits)
    op = VectorOp(int(rng.integers(10)))
    return lambda **bits: Vector(op, Operand.SRC, Source.ACC, **fields, **bits)


def random_conflicts(rng, columns):
    """Extra cycles, as if VECTORs had bank conflicts."""
    from vdla.hardware.isa import COL, Opcode

    vectors = columns[:, COL["opcode"]] == Opcode.VECTOR
    return np.where(vectors, rng.integers(0, 5, len(columns)), 0).astype(np.int64)

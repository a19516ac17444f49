"""Random instructions inside the buffers and DRAM of their configuration, with few iterations: to test function."""

import numpy as np

from vdla.hardware.isa import Buffer, Emit, Gemm, Load, MicroOp, Operand, Source, Store, Vector, VectorOp, encode_uops


def random_dram(rng, config, uops):
    """(image, its micro-ops' first beat): random bytes with extremes, micro-ops at the end."""
    data = rng.integers(0, 256, 1 << 14).astype(np.uint8)
    data[: 1 << 12] = rng.choice(np.array([0, 0x7F, 0x80, 0xFF], np.uint8), 1 << 12)
    table = encode_uops(config, uops).reshape(-1)
    return np.concatenate([data, table]), len(data) // config.axi_bytes


def random_uops(rng, config, count):
    """Micro-ops with small offsets; sums in runs, entries that come back, several to one entry."""
    style = rng.integers(3)
    return [
        MicroOp(
            acc=int(k // 3 if style == 0 else rng.integers(0, 2) if style == 1 else k) % _span(config.acc_depth),
            src=int(rng.integers(0, _span(config.inp_depth))),
            wgt=int(rng.integers(0, _span(config.wgt_depth))),
            first=int(k % 3 == 0 if style == 0 else rng.random() < 0.3),
            last=int(k % 3 == 2 if style == 0 else rng.random() < 0.3),
        )
        for k in range(count)
    ]


def _span(depth):
    return max(1, min(8, depth // 2))


def _below(rng, size):
    return int(rng.choice([0, size - 1, rng.integers(0, size)]))


def _affine(rng, depth, largest_uop, loops):
    """(base, factors) with base + largest_uop + (loop - 1) * factor below depth."""
    room = depth - 1 - largest_uop
    factors = []
    for loop in loops:
        most = room // (loop - 1) if loop > 1 else room
        factor = int(rng.choice([0, 1, 2, max(most, 0)]))
        factor = min(factor, max(most, 0))
        factors.append(factor)
        room -= (loop - 1) * factor
    return int(rng.choice([0, room, rng.integers(0, room + 1)])), factors


def random_core(rng, config, uops):
    """A GEMM or VECTOR over some of the loaded micro-ops."""
    begin = int(rng.integers(0, len(uops)))
    end = int(rng.integers(begin + 1, len(uops) + 1))
    part = uops[begin:end]
    loops = (int(rng.integers(1, 4)), int(rng.choice([1, 2, 4, 5, 9])))
    emit = Emit(int(rng.integers(3)))
    is_gemm = rng.random() < 0.5
    op, operand, source = VectorOp(int(rng.integers(10))), Operand(int(rng.integers(3))), Source(int(rng.integers(2)))
    reads_source = is_gemm or operand == Operand.SRC or op == VectorOp.MAC
    source = source if reads_source else Source.ACC
    sources = config.inp_depth if is_gemm else config.inp_vectors if source == Source.INP else config.acc_depth
    weights = config.wgt_depth if is_gemm else config.wgt_vectors
    fields = {
        "uop_begin": begin,
        "uop_end": end,
        "loop0": loops[0],
        "loop1": loops[1],
        "init": int(rng.integers(2)),
        "emit": emit,
    }
    accs = min(config.acc_depth, {0: 1 << 30, 1: config.out_depth, 2: config.out_slots}[int(emit)])
    top = max(u.acc for u in part)
    top_src, top_wgt = max(u.src for u in part), max(u.wgt for u in part)
    if accs <= top or sources <= top_src or weights <= top_wgt:
        return None
    fields["acc"], (fields["acc0"], fields["acc1"]) = _affine(rng, accs, top, loops)
    if reads_source:
        fields["src"], (fields["src0"], fields["src1"]) = _affine(rng, sources, top_src, loops)
    if is_gemm or operand == Operand.WGT:
        fields["wgt"], (fields["wgt0"], fields["wgt1"]) = _affine(rng, weights, top_wgt, loops)
    if emit != Emit.NONE:
        fields["out"] = int(rng.integers(0, fields["acc"] + 1))
    if emit == Emit.REQUANT:
        fields["scl"], (fields["scl0"], fields["scl1"]) = _affine(rng, config.scl_depth, 0, loops)
        half = 1 << (config.out_bits - 1)
        low, high = sorted(int(v) for v in rng.choice([-half, half - 1, 0, -1], 2))
        fields.update(zero_point=int(rng.integers(-half, half)), clip_lo=low, clip_hi=high)
    if is_gemm:
        return Gemm(**fields)
    imm = int(rng.choice([-32768, 32767, 0, -1, 31, 5])) if operand == Operand.IMM else 0
    return Vector(op, operand, source, imm, **fields)


def random_load(rng, config, beats):
    buffer = Buffer(int(rng.choice([Buffer.INP, Buffer.WGT, Buffer.SCL, Buffer.ACC])))
    widen = int(buffer == Buffer.ACC and rng.random() < 0.5)
    entry = config.out_entry_bytes if widen else config.entry_bytes[buffer]
    return _fitted(rng, config, beats, buffer, widen, entry // config.axi_bytes)


def _fitted(rng, config, beats, buffer, widen, entry):
    for _ in range(50):
        z, y, x = (int(v) for v in rng.integers(1, 4, 3))
        pads = {}
        if buffer in (Buffer.INP, Buffer.ACC) and rng.random() < 0.6:
            pads = {name: int(rng.integers(0, 3)) for name in ("y_before", "y_after", "x_before", "x_after")}
            y, x = (int(v) for v in rng.integers(0, 4, 2))
        rows, columns = (
            y + pads.get("y_before", 0) + pads.get("y_after", 0),
            x + pads.get("x_before", 0) + pads.get("x_after", 0),
        )
        count = z * rows * columns
        depth = config.depths[buffer]
        y_stride, z_stride = int(rng.integers(0, 3 * x * entry + 1)), int(rng.integers(0, 20 * entry + 1))
        span = (z - 1) * z_stride + max(y - 1, 0) * y_stride + x * entry
        if count == 0 or count > depth or span >= beats:
            continue
        where = {}
        if x and y:
            where = {"dram": _below(rng, beats - span), "y_stride": y_stride, "z_stride": z_stride}
        if sum(pads.values()):
            half = 1 << (config.inp_bits - 1)
            pads["pad_value"] = (
                int(rng.choice([-half, half - 1, 0]))
                if buffer == Buffer.INP
                else int(rng.choice([-(1 << 31), (1 << 31) - 1, 7]))
            )
        sram = _below(rng, depth - count + 1)
        return Load(buffer, sram, z_size=z, y_size=y, x_size=x, widen=widen, **where, **pads)
    return None


def random_store(rng, config, beats):
    entry = config.out_entry_bytes // config.axi_bytes
    for _ in range(50):
        z, y, x = (int(v) for v in rng.integers(1, 4, 3))
        y_stride, z_stride = int(rng.integers(0, 3 * x * entry)), int(rng.integers(0, 20 * entry))
        span = (z - 1) * z_stride + (y - 1) * y_stride + x * entry
        if z * y * x <= config.out_depth and span < beats:
            sram = _below(rng, config.out_depth - z * y * x + 1)
            return Store(sram, _below(rng, beats - span), z, y, x, z_stride, y_stride)
    return None


def random_sequence(rng, config, count):
    """(instructions in order, DRAM image): micro-ops and data loaded first, then a mixture."""
    uops = random_uops(rng, config, int(min(12, config.uop_depth)))
    dram, base = random_dram(rng, config, uops)
    instructions = [Load(Buffer.UOP, dram=base, x_size=len(uops))]
    while len(instructions) < count:
        kind = rng.random()
        made = (
            random_load(rng, config, base)
            if kind < 0.45
            else random_store(rng, config, base)
            if kind < 0.55
            else random_core(rng, config, uops)
        )
        if made is not None:
            instructions.append(made)
    return instructions, dram

# SPDX-License-Identifier: Apache-2.0
"""Random instructions of extensions, in bounds, for comparisons of function and timing."""

from __future__ import annotations

import numpy as np

from vdla.hardware.config import Buffer
from vdla.hardware.isa import Load, MicroOp, StagedEmit, encode_uops, instruction_columns, isa_of

COUNT, REACH = 3, 3  # micro-ops of the kernel; offsets and extents are at most REACH


def random_extended(config, rng, count):
    """(columns, DRAM) of loads that fill the buffers and `count` instructions of extensions."""
    uops = [MicroOp(*rng.integers(0, REACH, 3).tolist(), *rng.integers(0, 2, 2).tolist()) for _ in range(COUNT)]
    table = np.frombuffer(encode_uops(config, uops).tobytes(), np.uint8)
    dram = rng.integers(0, 256, 1 << 13).astype(np.uint8)
    dram[: len(table)] = table
    beats = len(table) // config.axi_bytes
    loads = [Load(Buffer.UOP, x_size=COUNT)]
    for buffer in (Buffer.INP, Buffer.WGT, Buffer.SCL, Buffer.ACC):
        entries = min(config.depths[buffer], (len(dram) - len(table)) // config.entry_bytes[buffer])
        loads.append(Load(buffer, dram=beats, x_size=entries))
    drawn = [_random_instruction(config, rng) for _ in range(count)]
    return instruction_columns(config, [*loads, *drawn]), dram


def _random_instruction(config, rng):
    formats = [found for found in isa_of(config).formats.values() if found.plug_in]
    found = formats[rng.integers(len(formats))]
    plug_in = found.plug_in
    held = [port.index for port in plug_in.states if port.index and port.state.rows > 3 * (REACH - 1)]
    used = [*(["acc"] if plug_in.has_result else []), *(["src"] if plug_in.src else []), *held]
    used += ["wgt"] if plug_in.wgt else []
    values = {f"{index}{loop}": int(rng.integers(REACH)) for index in used for loop in ("0", "1")}
    values |= {own.name: _random_value(rng, own) for own in plug_in.fields}
    emit = StagedEmit(int(rng.integers(4 if config.stage else 3)) if plug_in.writes_sums else 0)
    if emit in (StagedEmit.REQUANT, StagedEmit.STAGE):
        values |= {"scl1": 1, "zero_point": -1, "clip_lo": -7, "clip_hi": 7}
    init = int(rng.integers(2)) if plug_in.old.value == "accumulate" else 0
    loops = {"loop0": int(rng.integers(1, REACH)), "loop1": int(rng.integers(1, REACH)), "uop_end": COUNT}
    return found.cls(**values, **loops, emit=emit, init=init)


def _random_value(rng, own):
    low = -(1 << (own.width - 1)) if own.signed else 0
    return int(rng.integers(low, low + (1 << own.width)))

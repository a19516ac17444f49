# SPDX-License-Identifier: Apache-2.0
"""Programs of LOADs and STOREs of the greatest extents: the top bits of sizes, paddings and sums.

Random transfers are mostly short, so that a counter which is a bit too narrow passes them. Each of
these fills buffers, then writes them once more by rows, columns or paddings, and stores a whole
output buffer. The last two programs wait instead: with all of fetch's buffer for compute, and for a
full token queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from vdla.compiler.codegen.vdla import IssuedOp
from vdla.hardware.config import MIN_TOKEN_DEPTH, Buffer, Config
from vdla.hardware.isa import Emit, Load, Operand, Store, Unit, Vector, VectorOp, instruction_bytes
from vdla.hardware.program import UOPS, Program
from vdla.hardware.timing import fetch_buffer_beats
from vdla.verification.programs.random_dma import PAD_HIGH, PADDED, SOURCES
from vdla.verification.programs.random_programs import STORED, Draft, buffer_sizes
from vdla.verification.programs.random_state import Drawn, RandomState
from vdla.verification.programs.random_tokens import ExtraTokens

_FILLED = (Buffer.WGT, Buffer.SCL, *PADDED)
_MORE = 4  # instructions than fit the queue and fetch's buffer
_CYCLES_OF_A_BEAT = 2  # of the stream, at most, while nothing else is read
_VALUES = 100  # that VECTORs add: which of them ran shows in the sum
_LOAD_CYCLES = 100  # compute is busy for as long for each LOAD
_TABLE = [[0, 0, 0, 1, 1]]  # a micro-op whose sum starts and ends


def extreme_programs(config: Config, seed: int) -> Iterator[Program]:
    """The programs for a machine; the seed decides their constant data."""
    for extent in range(len(_padded(Buffer.ACC, config.acc_depth))):
        draft = _draft(config, seed, f"extent_{extent}")
        for drawn in (*_loads(config, extent), *_results(config, extent)):
            _admit(draft, drawn)
        yield draft.program(draft.needed_tokens)
    yield _full_fetch(config, seed)
    yield _full_queue(config, seed)


def _draft(config: Config, seed: int, name: str) -> Draft:
    table = np.array(_TABLE, np.int64)
    sizes = buffer_sizes(config, len(table))
    for buffer in _FILLED:
        whole = config.depths[buffer] * config.entry_bytes[buffer] // config.axi_bytes
        sizes[SOURCES[buffer]] = max(sizes[SOURCES[buffer]], whole)
    sizes["out"] = max(sizes["out"], config.out_depth * config.out_entry_bytes // config.axi_bytes)
    state = RandomState(config=config, rng=np.random.default_rng(seed), sizes=sizes, table=table)
    state.stored = {tensor: np.zeros(sizes[tensor], np.bool_) for tensor in STORED}
    return Draft(f"{name}_{config.name}", state, ExtraTokens(0.0))


def _admit(draft: Draft, drawn: Drawn) -> None:
    if not draft.state.admit(drawn):
        raise AssertionError(f"{draft.name}: {drawn} must be sound")


def _full_queue(config: Config, seed: int) -> Program:
    """A LOAD with padding that starts while the LOAD before it waits to push, as compute is busy.

    The last LOAD pops a token of the first VECTOR, and the second VECTOR keeps compute busy. SYNCs
    between the LOADs pop enough tokens for the program to end even with queues of the least depth.
    """
    draft, places = _draft(config, seed, "full_queue"), list[IssuedOp]()
    none, load, compute = frozenset[Unit](), frozenset({Unit.LOAD}), frozenset({Unit.COMPUTE})

    def append(unit: Unit, drawn: Drawn, pops: frozenset[Unit] = none, pushes: frozenset[Unit] = none) -> None:
        places.append(IssuedOp(len(draft.state.drawn), unit, pops, pushes))
        _admit(draft, drawn)

    pop = IssuedOp(None, Unit.COMPUTE, load, none)
    padded = Drawn(Load(Buffer.INP, x_size=1, x_before=1), SOURCES[Buffer.INP])
    waits = config.token_depth  # the number of the LOAD that waits to push
    rounds = -(-waits * _LOAD_CYCLES // config.acc_depth)
    slow = Vector(VectorOp.ADD, Operand.IMM, imm=1, uop_end=1, loop0=config.acc_depth, acc0=1, loop1=rounds)
    append(Unit.COMPUTE, Drawn(Load(Buffer.UOP, x_size=1), UOPS))
    append(Unit.COMPUTE, Drawn(Load(Buffer.ACC, x_size=config.acc_depth), SOURCES[Buffer.ACC]))
    append(Unit.COMPUTE, Drawn(slow), pushes=load)
    append(Unit.COMPUTE, Drawn(slow))
    for number in range(waits + 1):
        if number >= MIN_TOKEN_DEPTH:
            places.append(pop)
        append(Unit.LOAD, padded, pushes=compute)
    append(Unit.LOAD, padded, pops=compute)
    places += [pop] * MIN_TOKEN_DEPTH
    return draft.program(places)


def _full_fetch(config: Config, seed: int) -> Program:
    """VECTORs behind one that takes longer than the stream: queue and buffer of fetch fill up."""
    draft = _draft(config, seed, "full_fetch")
    buffered = -(-fetch_buffer_beats(config) * config.axi_bytes // instruction_bytes(config))
    waiting = config.command_depth + buffered + _MORE
    cycles = _CYCLES_OF_A_BEAT * waiting * instruction_bytes(config) // config.axi_bytes
    slow = Vector(VectorOp.ADD, Operand.IMM, imm=1, uop_end=1, loop0=config.acc_depth, acc0=1)
    _admit(draft, Drawn(Load(Buffer.UOP, x_size=1), UOPS))
    _admit(draft, Drawn(Load(Buffer.ACC, x_size=config.acc_depth), SOURCES[Buffer.ACC]))
    _admit(draft, Drawn(replace(slow, loop1=-(-cycles // config.acc_depth))))
    for number in range(waiting):
        _admit(draft, Drawn(replace(slow, loop0=1, imm=number % _VALUES)))
    return draft.program(draft.needed_tokens)


def _loads(config: Config, extent: int) -> Iterator[Drawn]:
    yield Drawn(Load(Buffer.UOP, x_size=1), UOPS)
    for buffer in _FILLED:
        tensor, depth = SOURCES[buffer], config.depths[buffer]
        shapes = _padded(buffer, depth) if buffer in PADDED else _plain(buffer, depth)
        if extent < len(shapes):  # each shape once: filling the largest buffer takes most of the time
            yield Drawn(Load(buffer, x_size=depth), tensor)
            yield Drawn(shapes[extent], tensor)


def _plain(buffer: Buffer, depth: int) -> list[Load]:
    """A buffer as rows, as planes, as planes of rows, and all of it from one place."""
    half = depth // 2
    return [
        Load(buffer, y_size=depth, y_stride=1, x_size=1),
        Load(buffer, z_size=depth, z_stride=1, x_size=1),
        Load(buffer, z_size=2, y_size=half, y_stride=1, x_size=1),
        Load(buffer, y_size=depth, x_size=1),
    ]


def _padded(buffer: Buffer, depth: int) -> list[Load]:
    """The same, and with much padding, or much data between paddings, at each side; no data."""
    half, most = depth // 2, min(PAD_HIGH, depth - 1)
    return [
        *_plain(buffer, depth),
        Load(buffer, x_size=1, x_before=most, pad_value=1),
        Load(buffer, x_size=1, x_after=most, pad_value=-1),
        Load(buffer, x_size=1, y_before=most, pad_value=1),
        Load(buffer, x_size=1, y_after=most, pad_value=-1),
        Load(buffer, x_size=depth - 2, x_before=1, x_after=1, pad_value=1),
        Load(buffer, x_size=half - 2, x_before=1, x_after=1, y_before=1, pad_value=-1),
        Load(buffer, z_size=2, x_size=half - 2, x_before=1, x_after=1, pad_value=1),
        Load(buffer, z_size=2, y_size=half - 2, x_size=1, y_before=1, y_after=1, pad_value=-1),
        Load(buffer, x_size=0, x_before=1, pad_value=1),
        Load(buffer, y_size=0, x_size=depth, y_before=1, pad_value=1),
        Load(buffer, y_size=depth, x_size=0, x_before=1, pad_value=-1),
    ]


def _results(config: Config, extent: int) -> Iterator[Drawn]:
    """The output buffer: written by one VECTOR; stored in a row, in rows, in planes of rows."""
    slots = min(config.acc_depth, config.out_slots)
    entries = slots * (config.out_depth // config.out_slots)
    half = entries // 2
    yield Drawn(Vector(VectorOp.ADD, Operand.IMM, imm=1, uop_end=1, loop0=slots, acc0=1, emit=Emit.RAW))
    shapes = (
        Store(x_size=entries),
        Store(y_size=entries, y_stride=1, x_size=1),
        Store(z_size=2, z_stride=half, y_size=half, y_stride=1, x_size=1),
    )
    yield Drawn(shapes[extent % len(shapes)], "out")

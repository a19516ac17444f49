"""Programs of LOADs and STOREs of the greatest extents: the top bits of sizes, paddings and sums.

Random transfers are mostly short, so that a counter which is a bit too narrow passes them. These
fill each buffer by its rows, its columns and its paddings, and store a whole output buffer. A
program loads each buffer once, so that what its LOAD wrote is there at its end. The last program
waits for a full token queue instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vdla.benchmarks.programs.random_dma import PAD_HIGH, PADDED, SOURCES
from vdla.benchmarks.programs.random_programs import STORED, Draft, buffer_sizes
from vdla.benchmarks.programs.random_state import Drawn, State
from vdla.benchmarks.programs.random_tokens import ExtraTokens
from vdla.compiler.codegen.vdla import IssuedOp
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Emit, Load, Operand, Store, Unit, Vector, VectorOp
from vdla.hardware.program import UOPS, Program

_EXTENTS = 12
_LOAD_CYCLES = 100  # compute is busy for as long for each LOAD
_TABLE = [[0, 0, 0, 1, 1]]  # a micro-op whose sum starts and ends


def extreme_programs(config: Config, seed: int) -> Iterator[Program]:
    """The programs for a machine; the seed decides their constant data."""
    for extent in range(_EXTENTS):
        draft = _draft(config, seed, f"extent_{extent}")
        for drawn in (*_loads(config, draft.state.sizes, extent), *_results(config, extent)):
            draft.state.admit(drawn)  # what leaves a tensor or buffer of this machine is left out
        yield draft.program(draft.needed_tokens)
    yield _full_queue(config, seed)


def _draft(config: Config, seed: int, name: str) -> Draft:
    table = np.array(_TABLE, np.int64)
    sizes = buffer_sizes(config, len(table))
    state = State(config=config, rng=np.random.default_rng(seed), sizes=sizes, table=table)
    state.stored = {name: np.zeros(sizes[name], np.bool_) for name in STORED}
    return Draft(f"{name}_{config.name}", state, ExtraTokens(0.0))


def _full_queue(config: Config, seed: int) -> Program:
    """A LOAD with padding that starts while the LOAD before it waits to push, as compute is busy.

    VECTORs that fill compute's queue of commands hold the last LOAD back until then.
    """
    draft, places = _draft(config, seed, "full_queue"), list[IssuedOp]()
    none, from_load, to_compute = frozenset[Unit](), frozenset({Unit.LOAD}), frozenset({Unit.COMPUTE})

    def append(unit: Unit, drawn: Drawn) -> None:
        places.append(IssuedOp(len(draft.state.drawn), unit, none, to_compute if unit is Unit.LOAD else none))
        if not draft.state.admit(drawn):
            raise AssertionError(f"full queue: {drawn} must be sound")

    def load(number: int) -> None:
        padded = Load(Buffer.INP, sram=2 * number, x_size=1, x_before=1)
        append(Unit.LOAD, Drawn(padded, SOURCES[Buffer.INP]))

    loads = config.token_depth + 2
    rounds = loads * _LOAD_CYCLES // config.acc_depth
    slow = Vector(VectorOp.ADD, Operand.IMM, imm=1, uop_end=1, loop0=config.acc_depth, acc0=1, loop1=rounds)
    append(Unit.COMPUTE, Drawn(Load(Buffer.UOP, x_size=1), UOPS))
    append(Unit.COMPUTE, Drawn(Load(Buffer.ACC, x_size=config.acc_depth), SOURCES[Buffer.ACC]))
    append(Unit.COMPUTE, Drawn(slow))
    for number in range(loads - 1):
        load(number)
    for _ in range(config.command_depth + 1):
        append(Unit.COMPUTE, Drawn(slow))
    load(loads - 1)
    places += [IssuedOp(None, Unit.COMPUTE, from_load, none)] * loads
    return draft.program(places)


def _loads(config: Config, beats: dict[str, int], extent: int) -> Iterator[Drawn]:
    yield Drawn(Load(Buffer.UOP, x_size=1), UOPS)
    for buffer in (Buffer.WGT, Buffer.SCL, *PADDED):
        tensor = SOURCES[buffer]
        depth = min(config.depths[buffer], beats[tensor] * config.axi_bytes // config.entry_bytes[buffer])
        yield Drawn(Load(buffer, x_size=depth), tensor)
        shapes = _padded(buffer, depth) if buffer in PADDED else _plain(buffer, depth)
        yield Drawn(shapes[extent % len(shapes)], tensor)


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
    """The same, and with much padding, or much data between paddings, at each side."""
    half, most = depth // 2, min(PAD_HIGH, depth - 1)
    return [
        *_plain(buffer, depth),
        Load(buffer, x_size=1, x_before=most, pad_value=1),
        Load(buffer, x_size=1, x_after=most, pad_value=2),
        Load(buffer, x_size=1, y_before=most, pad_value=3),
        Load(buffer, x_size=1, y_after=most, pad_value=4),
        Load(buffer, x_size=depth - 2, x_before=1, x_after=1, pad_value=5),
        Load(buffer, x_size=half - 2, x_before=1, x_after=1, y_before=1, pad_value=6),
        Load(buffer, z_size=2, x_size=half - 2, x_before=1, x_after=1, pad_value=7),
        Load(buffer, z_size=2, y_size=half - 2, x_size=1, y_before=1, y_after=1, pad_value=8),
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

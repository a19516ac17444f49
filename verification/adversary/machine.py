# SPDX-License-Identifier: Apache-2.0
"""The adversary's machine: units that advance in the order of a schedule, on digests instead of
data.

Every buffer entry and DRAM beat holds a 64-bit digest of how it was computed; equal digests at the
end of two runs mean equal data flow. Nothing is shared with the verifier: fields are decoded and
indices checked here, as they are used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa import COL, EXTENSION, EXTENSION_COLUMN, Buffer, Opcode, Operand, Source, StagedEmit, VectorOp
from vdla.simulator.support.jit import entry_point, helper
from vdla.support.arrays import Ints

Digests = NDArray[np.uint64]

DONE, HANG, BOUNDS, LONG = range(4)

# Parameters of a machine, and of a schedule.
PARAMS = (
    "command_depth", "token_depth", "inp", "wgt", "scl", "uop", "acc", "out",
    "inp_beats", "wgt_beats", "scl_beats", "uop_beats", "acc_beats", "out_beats",
    "inp_per_entry", "inp_entries", "wgt_per_entry", "slot_entries",
    "most", "random", "first", "second", "third", "chunk", "latched", "seed", "limit",
)  # fmt: skip
P = {name: index for index, name in enumerate(PARAMS)}

_TENSOR_FIELDS = ("base", "beats", "writable", "uops")  # uops: the tensor's first micro-op or -1

PORTS = ("old", "src", "wgt", "src_entries", "wgt_entries", "result")
"""What a plug-in reads: see `NOTHING` and the values below it, by column of an array; and the
entries of an operand that is not a vector; and the buffer of its results.
"""
NOTHING, ENTRY, VECTOR, SUM, SUM_UNLESS_FIRST, NO_SUM = range(6)
"""NO_SUM: the plug-in neither reads nor writes an accumulator entry."""

HELD = ("owner", "space", "rows", "index", "reads", "writes")
"""A private state that a plug-in (`owner` its number) or the stage (`owner` STAGE) uses: its row of
`memory`, its rows, and what indexes it: ACC, SRC, WGT, the ONLY row, or ALL rows."""
STAGE = -1
BY_ACC, BY_SRC, BY_WGT, ONLY, ALL = range(5)
BUFFERS = 6
"""Rows of `memory` that are buffers; those of private states follow."""

_P_CMD, _P_TOK, _P_DEPTH, _P_BEATS = P["command_depth"], P["token_depth"], P["inp"], P["inp_beats"]
_P_IPE, _P_IE, _P_WPE, _P_SLOT = P["inp_per_entry"], P["inp_entries"], P["wgt_per_entry"], P["slot_entries"]
_P_RANDOM, _P_FIRST, _P_CHUNK = P["random"], P["first"], P["chunk"]
_P_LATCHED, _P_SEED, _P_LIMIT, _P_MOST = P["latched"], P["seed"], P["limit"], P["most"]

_INP, _WGT, _SCL, _UOP, _ACC, _OUT = (int(buffer) for buffer in Buffer)
_LOAD, _STORE, _GEMM, _VECTOR = (int(o) for o in (Opcode.LOAD, Opcode.STORE, Opcode.GEMM, Opcode.VECTOR))
_EXTENSION = int(EXTENSION)
_OLD_PORT, _SRC_PORT, _WGT_PORT, _SRC_ENTRIES, _WGT_ENTRIES, _RESULT = range(len(PORTS))
_NOTHING, _VECTOR_PORT, _SUM, _SUM_UNLESS_FIRST = NOTHING, VECTOR, SUM, SUM_UNLESS_FIRST
_NO_SUM, _STAGE_OWNER, _BY_ACC, _BY_SRC, _BY_WGT, _ALL = NO_SUM, STAGE, BY_ACC, BY_SRC, BY_WGT, ALL
_OWNER, _SPACE, _ROWS, _INDEX, _READS, _WRITES = range(len(HELD))
_EMIT_NONE, _EMIT_RAW, _EMIT_STAGE = int(StagedEmit.NONE), int(StagedEmit.RAW), int(StagedEmit.STAGE)
_SRC, _BY_WEIGHT, _FROM_INP = int(Operand.SRC), int(Operand.WGT), int(Source.INP)
_MOV, _MAC = int(VectorOp.MOV), int(VectorOp.MAC)

_OPCODE, _UNIT, _BUFFER, _WIDEN, _PAD = (COL[n] for n in ("opcode", "unit", "buffer", "widen", "pad_value"))
_POP_PREV, _POP_NEXT, _PUSH_PREV, _PUSH_NEXT = (COL[n] for n in ("pop_prev", "pop_next", "push_prev", "push_next"))
_SRAM, _DRAM, _Z, _Y, _X = (COL[n] for n in ("sram", "dram", "z_size", "y_size", "x_size"))
_ZS, _YS, _YB, _YA, _XB, _XA = (COL[n] for n in ("z_stride", "y_stride", "y_before", "y_after", "x_before", "x_after"))
_INIT, _EMIT, _UB, _UE, _L0, _L1 = (COL[n] for n in ("init", "emit", "uop_begin", "uop_end", "loop0", "loop1"))
_A, _S, _W, _O, _C = (COL[n] for n in ("acc", "src", "wgt", "out", "scl"))
_A0, _A1, _S0, _S1 = (COL[n] for n in ("acc0", "acc1", "src0", "src1"))
_W0, _W1, _C0, _C1 = (COL[n] for n in ("wgt0", "wgt1", "scl0", "scl1"))
_OP, _SOURCE, _OPERAND, _IMM = (COL[n] for n in ("op", "source", "operand", "imm"))


@helper
def _mix(a: np.uint64, b: np.uint64) -> np.uint64:
    x = a * np.uint64(0x9E3779B97F4A7C15) ^ (b + np.uint64(0xD1B54A32D192ED03))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@helper
def _tag(a: np.uint64, b: int) -> np.uint64:
    return _mix(a, np.uint64(b))


@helper
def _draw(state: Digests, bound: int) -> int:
    state[0] = _mix(state[0], np.uint64(1))
    return int(np.int64(state[0] >> np.uint64(33)) % bound)


@helper
def _poison(memory: Digests, micro_ops: Ints, params: Ints, state: Digests) -> None:
    """Fill the buffers with random digests: unwritten entries differ between runs."""
    for buffer in range(memory.shape[0]):
        for at in range(memory.shape[1]):
            memory[buffer, at] = _mix(_tag(state[0], buffer), np.uint64(at))
    for at in range(micro_ops.shape[0]):
        _poison_micro_op(micro_ops, at, params, state)


@helper
def _poison_micro_op(micro_ops: Ints, at: int, params: Ints, state: Digests) -> None:
    micro_ops[at, 0] = _draw(state, params[_P_DEPTH + _ACC])
    micro_ops[at, 1] = _draw(state, params[_P_DEPTH + _INP])
    micro_ops[at, 2] = _draw(state, params[_P_DEPTH + _WGT])
    micro_ops[at, 3] = _draw(state, 2)
    micro_ops[at, 4] = _draw(state, 2)


# --- execution, one item (entry or iteration) at a time -------------------------------------------


@helper
def _loops(row: Ints) -> bool:
    return bool(row[_OPCODE] == _GEMM or row[_OPCODE] == _VECTOR or row[_OPCODE] == _EXTENSION)


@helper
def _items(row: Ints) -> int:
    if row[_OPCODE] == _LOAD or row[_OPCODE] == _STORE:
        return int(row[_Z] * (row[_YB] + row[_Y] + row[_YA]) * (row[_XB] + row[_X] + row[_XA]))
    if _loops(row):
        return int(row[_L0] * row[_L1] * (row[_UE] - row[_UB]))
    return 0


@helper
def _dram_at(row: Ints, item: int, beats: int) -> int:
    """The first beat of an entry in the tensor; -1 for padding."""
    rows, columns = row[_YB] + row[_Y] + row[_YA], row[_XB] + row[_X] + row[_XA]
    z, rest = item // (rows * columns), item % (rows * columns)
    y, x = rest // columns - row[_YB], rest % columns - row[_XB]
    if y < 0 or y >= row[_Y] or x < 0 or x >= row[_X]:
        return -1
    return int(row[_DRAM] + z * row[_ZS] + y * row[_YS] + x * beats)


@helper
def _fetch_entry(row: Ints, item: int, tensor: Ints, dram: Digests, params: Ints) -> tuple[bool, np.uint64]:
    """(whether the access is in bounds, the digest that a LOAD reads for an entry)."""
    beats = params[_P_BEATS + (_OUT if row[_WIDEN] else row[_BUFFER])]
    at = _dram_at(row, item, beats)
    if at < 0:
        return True, _tag(np.uint64(77), row[_PAD])
    if tensor[1] < 0 or at + beats > tensor[1]:
        return False, np.uint64(0)
    value = np.uint64(row[_WIDEN])
    for beat in range(beats):
        value = _mix(value, dram[tensor[0] + at + beat])
    return True, value


@helper
def _load_micro_op(
    row: Ints, item: int, tensor: Ints, table: Ints, micro_ops: Ints, params: Ints, state: Digests
) -> bool:
    beats = params[_P_BEATS + _UOP]
    at = _dram_at(row, item, beats)
    to = row[_SRAM] + item
    if at < 0 or tensor[1] < 0 or at + beats > tensor[1] or to >= params[_P_DEPTH + _UOP]:
        return False
    if tensor[3] < 0:
        _poison_micro_op(micro_ops, to, params, state)
    else:
        for column in range(micro_ops.shape[1]):  # a row assignment would compile NumPy's broadcasting
            micro_ops[to, column] = table[tensor[3] + at, column]
    return True


@helper
def _store_entry(row: Ints, item: int, tensor: Ints, dram: Digests, value: np.uint64, params: Ints) -> bool:
    beats = params[_P_BEATS + _OUT]
    at = _dram_at(row, item, beats)
    if tensor[1] < 0 or tensor[2] == 0 or at + beats > tensor[1]:
        return False
    for beat in range(beats):
        dram[tensor[0] + at + beat] = _tag(value, beat)
    return True


@helper
def _input_vector(memory: Digests, index: int, params: Ints) -> np.uint64:
    if params[_P_IE] > 1:
        value = np.uint64(0)
        for part in range(params[_P_IE]):
            value = _mix(value, memory[_INP, index * params[_P_IE] + part])
        return value
    return _tag(memory[_INP, index // params[_P_IPE]], index % params[_P_IPE])


@helper
def _staged(value: np.uint64, memory: Digests, held: Ints) -> np.uint64:
    """A result behind the stage: any function of it and of all rows of the stage's states."""
    value = _tag(value, 3)
    for port in held:
        if port[_OWNER] == _STAGE_OWNER:
            for at in range(port[_ROWS]):
                value = _mix(value, memory[port[_SPACE], at])
    return value


@helper
def _emit(row: Ints, offset: int, scale: int, value: np.uint64, memory: Digests, params: Ints, held: Ints) -> bool:
    to = row[_O] + offset
    if row[_EMIT] == _EMIT_RAW:
        if (to + 1) * params[_P_SLOT] > params[_P_DEPTH + _OUT]:
            return False
        for part in range(params[_P_SLOT]):
            memory[_OUT, to * params[_P_SLOT] + part] = _tag(value, part)
        return True
    if to >= params[_P_DEPTH + _OUT] or scale >= params[_P_DEPTH + _SCL]:
        return False
    result = _mix(value, memory[_SCL, scale])
    memory[_OUT, to] = _staged(result, memory, held) if row[_EMIT] == _EMIT_STAGE else result
    return True


@helper
def _iterate(row: Ints, item: int, memory: Digests, micro_ops: Ints, params: Ints, ports: Ints, held: Ints) -> bool:
    """Execute an iteration of a compute instruction; whether its accesses are in bounds."""
    size = row[_UE] - row[_UB]
    u, rest = row[_UB] + item % size, item // size
    i, j = rest // row[_L1], rest % row[_L1]
    if u >= params[_P_DEPTH + _UOP]:
        return False
    offset = micro_ops[u, 0] + i * row[_A0] + j * row[_A1]
    a = row[_A] + offset
    s = row[_S] + micro_ops[u, 1] + i * row[_S0] + j * row[_S1]
    w = row[_W] + micro_ops[u, 2] + i * row[_W0] + j * row[_W1]
    sums = row[_OPCODE] != _EXTENSION or ports[row[EXTENSION_COLUMN], _OLD_PORT] != _NO_SUM
    inputs = row[_OPCODE] == _EXTENSION and ports[row[EXTENSION_COLUMN], _RESULT] == _INP
    if ((sums or inputs) and a >= params[_P_DEPTH + _ACC]) or (inputs and a >= params[_P_DEPTH + _INP]):
        return False
    starts = row[_INIT] > 0 and micro_ops[u, 3] > 0
    if row[_OPCODE] == _GEMM:
        legal, value = _product(starts, a, s, w, memory, params)
    elif row[_OPCODE] == _EXTENSION:
        legal, value = _extended(row, ports[row[EXTENSION_COLUMN]], starts, a, s, w, memory, params)
        legal = legal and _in_states(row, a, s, w, held)
        if legal:
            value = _through_states(row, a, s, w, value, memory, held)
    else:
        legal, value = _vector(row, starts, a, s, w, memory, params)
    if not legal:
        return False
    if inputs:
        memory[_INP, a] = value
    if not sums:
        return True
    memory[_ACC, a] = value
    if row[_EMIT] == _EMIT_NONE or micro_ops[u, 4] == 0:
        return True
    return _emit(row, offset, row[_C] + i * row[_C0] + j * row[_C1], value, memory, params, held)


@helper
def _product(starts: bool, a: int, s: int, w: int, memory: Digests, params: Ints) -> tuple[bool, np.uint64]:
    if s >= params[_P_DEPTH + _INP] or w >= params[_P_DEPTH + _WGT]:
        return False, np.uint64(0)
    old = np.uint64(0) if starts else memory[_ACC, a]
    return True, _mix(old, _mix(memory[_INP, s], memory[_WGT, w]))


@helper
def _extended(
    row: Ints, ports: Ints, starts: bool, a: int, s: int, w: int, memory: Digests, params: Ints
) -> tuple[bool, np.uint64]:
    """A step of a plug-in: any function of what its ports read and of its fields."""
    value = np.uint64(9)
    for column in range(EXTENSION_COLUMN, len(row)):
        value = _tag(value, row[column])
    if ports[_SRC_PORT] != _NOTHING:
        legal, entry = _source(ports[_SRC_PORT], s, ports[_SRC_ENTRIES], memory, params)
        if not legal:
            return False, entry
        value = _mix(value, entry)
    if ports[_WGT_PORT] != _NOTHING:
        legal, entry = _weight(ports[_WGT_PORT], w, ports[_WGT_ENTRIES], memory, params)
        if not legal:
            return False, entry
        value = _mix(value, entry)
    if ports[_OLD_PORT] == _SUM or (ports[_OLD_PORT] == _SUM_UNLESS_FIRST and not starts):
        value = _mix(value, memory[_ACC, a])
    return True, value


@helper
def _state_row(port: Ints, a: int, s: int, w: int) -> int:
    """The row of a state that a step uses; 0 where it is the only one, or all are used."""
    if port[_INDEX] == _BY_ACC:
        return a
    if port[_INDEX] == _BY_SRC:
        return s
    return w if port[_INDEX] == _BY_WGT else 0


@helper
def _in_states(row: Ints, a: int, s: int, w: int, held: Ints) -> bool:
    for port in held:
        if port[_OWNER] == row[EXTENSION_COLUMN] and _state_row(port, a, s, w) >= port[_ROWS]:
            return False
    return True


@helper
def _through_states(row: Ints, a: int, s: int, w: int, value: np.uint64, memory: Digests, held: Ints) -> np.uint64:
    """The value of a step that reads private states; it writes rows after it has read all."""
    for port in held:
        if port[_OWNER] == row[EXTENSION_COLUMN] and port[_READS]:
            first = _state_row(port, a, s, w)
            for at in range(first, port[_ROWS] if port[_INDEX] == _ALL else first + 1):
                value = _mix(value, memory[port[_SPACE], at])
    for port in held:
        if port[_OWNER] == row[EXTENSION_COLUMN] and port[_WRITES]:
            memory[port[_SPACE], _state_row(port, a, s, w)] = _tag(value, port[_SPACE])
    return value


@helper
def _source(port: int, s: int, entries: int, memory: Digests, params: Ints) -> tuple[bool, np.uint64]:
    nothing = np.uint64(0)
    if port == _SUM:
        return (True, memory[_ACC, s]) if s < params[_P_DEPTH + _ACC] else (False, nothing)
    if port == _VECTOR_PORT:
        vectors = params[_P_DEPTH + _INP] * params[_P_IPE] // params[_P_IE]
        return (True, _input_vector(memory, s, params)) if s < vectors else (False, nothing)
    return _group(_INP, s, entries, memory, params)


@helper
def _weight(port: int, w: int, entries: int, memory: Digests, params: Ints) -> tuple[bool, np.uint64]:
    if port != _VECTOR_PORT:
        return _group(_WGT, w, entries, memory, params)
    entry_words = params[_P_WPE]
    if w >= params[_P_DEPTH + _WGT] * entry_words:
        return False, np.uint64(0)
    return True, _tag(memory[_WGT, w // entry_words], w % entry_words)


@helper
def _group(buffer: int, index: int, entries: int, memory: Digests, params: Ints) -> tuple[bool, np.uint64]:
    """Consecutive entries of a buffer."""
    if (index + 1) * entries > params[_P_DEPTH + buffer]:
        return False, np.uint64(0)
    value = memory[buffer, index * entries]
    for place in range(1, entries):
        value = _mix(value, memory[buffer, index * entries + place])
    return True, value


@helper
def _vector(row: Ints, starts: bool, a: int, s: int, w: int, memory: Digests, params: Ints) -> tuple[bool, np.uint64]:
    x = np.uint64(0)
    if row[_OPERAND] == _SRC or row[_OP] == _MAC:
        if row[_SOURCE] == _FROM_INP:
            vectors = params[_P_DEPTH + _INP] * params[_P_IPE] // params[_P_IE]
            if s >= vectors:
                return False, x
            x = _input_vector(memory, s, params)
        else:
            if s >= params[_P_DEPTH + _ACC]:
                return False, x
            x = memory[_ACC, s]
    b = x if row[_OPERAND] == _SRC else _tag(np.uint64(5), row[_IMM])
    if row[_OPERAND] == _BY_WEIGHT:
        if w >= params[_P_DEPTH + _WGT] * params[_P_WPE]:
            return False, x
        b = _tag(memory[_WGT, w // params[_P_WPE]], w % params[_P_WPE])
    if row[_OP] == _MOV or (starts and row[_OP] != _MAC):
        return True, b
    old = np.uint64(0) if starts else memory[_ACC, a]
    return True, _tag(_mix(old, _mix(x, b)), row[_OP])


@helper
def _do_item(
    row: Ints, item: int, tensor: Ints, dram: Digests, table: Ints, memory: Digests,
    micro_ops: Ints, latch: Digests, params: Ints, ports: Ints, held: Ints, state: Digests,
) -> bool:  # fmt: skip
    """Execute one of `_steps` steps; latched DMA takes two per item, all reads first."""
    if _loops(row):
        return _iterate(row, item, memory, micro_ops, params, ports, held)
    if row[_OPCODE] == _LOAD and row[_BUFFER] == _UOP:
        return _load_micro_op(row, item, tensor, table, micro_ops, params, state)
    buffer = _OUT if row[_OPCODE] == _STORE else row[_BUFFER]
    items, latched = _items(row), params[_P_LATCHED] > 0
    entry = item % items
    at = row[_SRAM] + entry
    if at >= params[_P_DEPTH + buffer]:
        return False
    if item < items:
        if row[_OPCODE] == _STORE:
            latch[at] = memory[_OUT, at]
        else:
            legal, latch[at] = _fetch_entry(row, entry, tensor, dram, params)
            if not legal:
                return False
    if item < items and latched:
        return True
    if row[_OPCODE] == _STORE:
        return _store_entry(row, entry, tensor, dram, latch[at], params)
    memory[buffer, at] = latch[at]
    return True


# --- the machine ----------------------------------------------------------------------------------


_QUEUED, _BEGUN, _RUNNING, _PROGRESS = range(4)  # row of a unit: commands queued, begun; instruction; its steps


@helper
def _has_tokens(row: Ints, unit: int, tokens: Ints) -> bool:
    if unit == 0:
        return not (row[_POP_NEXT] and tokens[1] == 0)
    if unit == 2:
        return not (row[_POP_PREV] and tokens[2] == 0)
    return not (row[_POP_PREV] and tokens[0] == 0) and not (row[_POP_NEXT] and tokens[3] == 0)


@helper
def _has_room(row: Ints, unit: int, tokens: Ints, depth: int) -> bool:
    if unit == 0:
        return not (row[_PUSH_NEXT] and tokens[0] >= depth)
    if unit == 2:
        return not (row[_PUSH_PREV] and tokens[3] >= depth)
    return not (row[_PUSH_PREV] and tokens[1] >= depth) and not (row[_PUSH_NEXT] and tokens[2] >= depth)


@helper
def _pop(row: Ints, unit: int, tokens: Ints) -> None:
    if unit == 0:
        tokens[1] -= row[_POP_NEXT]
    elif unit == 2:
        tokens[2] -= row[_POP_PREV]
    else:
        tokens[0] -= row[_POP_PREV]
        tokens[3] -= row[_POP_NEXT]


@helper
def _push(row: Ints, unit: int, tokens: Ints) -> None:
    if unit == 0:
        tokens[0] += row[_PUSH_NEXT]
    elif unit == 2:
        tokens[3] += row[_PUSH_PREV]
    else:
        tokens[1] += row[_PUSH_PREV]
        tokens[2] += row[_PUSH_NEXT]


@helper
def _choose(enabled: Ints, params: Ints, state: Digests) -> int:
    """The unit to advance among the enabled ones, by precedence or at random; -1 for none."""
    if params[_P_RANDOM] and _draw(state, 8) > 0:
        start = _draw(state, 3)
        for step in range(3):
            if enabled[(start + step) % 3]:
                return (start + step) % 3
    for place in range(3):
        if enabled[params[_P_FIRST + place]]:
            return int(params[_P_FIRST + place])
    return -1


@helper
def _steps(row: Ints, params: Ints) -> int:
    moves = row[_OPCODE] == _STORE or (row[_OPCODE] == _LOAD and row[_BUFFER] != _UOP)
    return 2 * _items(row) if moves and params[_P_LATCHED] else _items(row)


@helper
def _dispatch(rows: Ints, units: Ints, dispatched: int, depth: int) -> int:
    """Dispatch while the command queues have room; the number dispatched so far."""
    while dispatched < len(rows):
        unit = rows[dispatched, _UNIT]
        if units[unit, _QUEUED] - units[unit, _BEGUN] >= depth:
            break
        units[unit, _QUEUED] += 1
        dispatched += 1
    return dispatched


@helper
def _can_advance(rows: Ints, order: Ints, units: Ints, unit: int, tokens: Ints, params: Ints) -> bool:
    running = units[unit, _RUNNING]
    if running < 0:
        if units[unit, _BEGUN] == units[unit, _QUEUED]:
            return False
        return _has_tokens(rows[order[unit, units[unit, _BEGUN]]], unit, tokens)
    return units[unit, _PROGRESS] < _steps(rows[running], params) or _has_room(
        rows[running], unit, tokens, params[_P_TOK]
    )


@helper
def _start(rows: Ints, order: Ints, units: Ints, unit: int, tokens: Ints) -> None:
    units[unit, _RUNNING] = order[unit, units[unit, _BEGUN]]
    units[unit, _BEGUN] += 1
    units[unit, _PROGRESS] = 0
    _pop(rows[units[unit, _RUNNING]], unit, tokens)


@helper
def _chunk(steps: int, progress: int, params: Ints, state: Digests) -> int:
    """The step at which the next chunk ends."""
    if params[_P_CHUNK] == 0:
        return steps
    stop = progress + 1 + _draw(state, params[_P_CHUNK])
    return stop if stop < steps else steps


@helper
def _stopped(order: Ints, counts: Ints, units: Ints) -> tuple[int, int]:
    for unit in range(3):
        if units[unit, _RUNNING] >= 0:
            return HANG, int(units[unit, _RUNNING])
        if units[unit, _BEGUN] < counts[unit]:
            return HANG, int(order[unit, units[unit, _BEGUN]])
    return DONE, -1


@entry_point
def run(
    rows: Ints,
    order: Ints,
    counts: Ints,
    tensor_of: Ints,
    tensors: Ints,
    table: Ints,
    dram: Digests,
    params: Ints,
    ports: Ints,
    held: Ints,
) -> tuple[int, int]:
    """Run once: (status, the offending instruction or -1). `dram` is updated in place.

    `order[unit]` are the `counts[unit]` instructions of a unit. `tensors` has _TENSOR_FIELDS; its
    last row stands for no tensor. `ports[number]` has the PORTS of a plug-in; `held` has the HELD
    states of plug-ins and of the stage.
    """
    state = np.empty(1, np.uint64)
    state[0] = _mix(np.uint64(params[_P_SEED]), np.uint64(3))
    most = params[_P_MOST]
    spaces, rows_of_states = BUFFERS, 0
    for port in held:
        spaces, rows_of_states = max(spaces, port[_SPACE] + 1), max(rows_of_states, port[_ROWS])
    memory = np.empty((spaces, max(most, rows_of_states)), np.uint64)
    latches = np.zeros((3, most), np.uint64)
    micro_ops = np.empty((params[_P_DEPTH + _UOP], 5), np.int64)
    _poison(memory, micro_ops, params, state)
    tokens, enabled, units = np.zeros(4, np.int64), np.zeros(3, np.int64), np.zeros((3, 4), np.int64)
    for unit in range(3):
        units[unit, _RUNNING] = -1
    dispatched, work = 0, 0
    while True:
        dispatched = _dispatch(rows, units, dispatched, params[_P_CMD])
        for unit in range(3):
            enabled[unit] = _can_advance(rows, order, units, unit, tokens, params)
        unit = _choose(enabled, params, state)
        if unit < 0:
            return _stopped(order, counts, units)
        if units[unit, _RUNNING] < 0:
            _start(rows, order, units, unit, tokens)
            continue
        index = units[unit, _RUNNING]
        row, progress = rows[index], units[unit, _PROGRESS]
        steps = _steps(row, params)
        if progress == steps:
            _push(row, unit, tokens)
            units[unit, _RUNNING] = -1
            continue
        stop = _chunk(steps, progress, params, state)
        work += stop - progress
        if work > params[_P_LIMIT]:
            return LONG, index
        for item in range(progress, stop):
            if not _do_item(
                row,
                item,
                tensors[tensor_of[index]],
                dram,
                table,
                memory,
                micro_ops,
                latches[unit],
                params,
                ports,
                held,
                state,
            ):
                return BOUNDS, index
        units[unit, _PROGRESS] = stop

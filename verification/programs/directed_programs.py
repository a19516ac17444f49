# SPDX-License-Identifier: Apache-2.0
"""Programs that drive every field of every format of a machine to both ends of its range.

    for case in directed_cases(config, seed=0): ...

They are generated from the table of formats (verification/coverage/extremes). Each has instructions
with a field at an end and all tokens that their unit can pop and push, behind the LOADs and results
that they read. What a later instruction hides from the comparison gets a program of its own. Two
more move rows as far apart as a stride reaches; in the last one, SYNCs push the tokens of the
instructions before them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vdla.compiler.codegen.vdla import QUEUES, IssuedOp
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import (
    UOP_FORMAT,
    Emit,
    Format,
    Gemm,
    Instruction,
    Load,
    Opcode,
    Operand,
    Source,
    Store,
    Sync,
    Unit,
    Vector,
    VectorOp,
)
from vdla.hardware.program import BEATS, UOPS, Program, place
from vdla.support.arrays import Ints
from vdla.verification.coverage.extremes import (
    FAR_BYTES,
    LOADED,
    MICRO_OP,
    PADDINGS,
    PLANES,
    STRIDES,
    Extreme,
    extremes,
    format_of,
    hits_of,
    limits,
    loop_fields,
)
from vdla.verification.coverage.fields import TOKENS
from vdla.verification.coverage.liveness import compared_data
from vdla.verification.programs.cases import ProgramCase
from vdla.verification.programs.random_data import LOWEST
from vdla.verification.programs.random_dma import SOURCES, window_loads
from vdla.verification.programs.random_extended import fill_states, own_values
from vdla.verification.programs.random_machines import MACHINES
from vdla.verification.programs.random_programs import STORED, Draft, buffer_sizes
from vdla.verification.programs.random_state import Drawn, RandomState, intervals
from vdla.verification.programs.random_tokens import ExtraTokens

_PERIODS = (7, 5, 3)  # the offsets of micro-ops count modulo these, so that those of two places differ
_FEW = 8  # runs of entries that are loaded one by one
_FILLS = 1 << 10  # more instructions than it takes to fill private states
_SEEDS = 1000  # from one seed of a benchmark to the next
_GOALS = 8  # of a program
_APART = ("dram", "y_stride", "z_stride", "pad_value")  # with which a LOAD writes two entries at most
_NONE = frozenset[Unit]()


def all_directed(seed: int, machines: Sequence[Config] = MACHINES) -> list[list[ProgramCase]]:
    """The programs of each machine on which devices are compared, a batch a machine."""
    return [list(directed_cases(machine, seed * _SEEDS)) for machine in machines]


def directed_cases(config: Config, seed: int) -> Iterator[ProgramCase]:
    """The programs of a machine; the seed decides data, addresses and registers at power-up."""
    for number, (program, places) in enumerate(_programs(config, seed)):
        yield ProgramCase(config, seed + number, program=program, places=places, random_start=number % 2 > 0)


def _programs(config: Config, seed: int) -> Iterator[tuple[Program, dict[str, int] | None]]:
    """The programs, with the places of those of the last address."""
    met: set[Extreme] = set()
    goals = extremes(config)
    together = [goal for goal in goals if goal.form != MICRO_OP and not (goal.field == "dram" and goal.value)]
    for at in range(0, len(together), _GOALS):
        program = _directed(config, seed, [goal for goal in together[at : at + _GOALS] if goal not in met])
        if program is not None:
            met |= _hits(program, None)
            yield program, None
    for goal in goals:
        if goal not in met and (program := _directed(config, seed, [goal])) is not None:
            places = _at_the_end(program, goal) if goal.field == "dram" and goal.value else None
            met |= _hits(program, places)
            yield program, places
    yield _behind(config, seed), None
    for name in STRIDES:  # last, since devices keep the memory of the largest program
        yield _far(config, seed, name), None


def _hits(program: Program, places: Mapping[str, int] | None) -> set[Extreme]:
    linked = program.linked_columns(place(program)[0] if places is None else places)
    return set(hits_of(program, linked, compared_data(program)))


def _directed(config: Config, seed: int, goals: Sequence[Extreme]) -> Program | None:
    """A program with an instruction for each goal; None without goals."""
    if not goals:
        return None
    draft, targets = _draft(config, seed, goals), set[int]()
    for number, goal in enumerate(goals):
        target = _target(draft.state, goal, number)
        if goal.field in TOKENS and not goal.value:
            _admit(draft.state, target)  # so that the next one needs no tokens
        _admit(draft.state, target)
        if goal.field not in TOKENS or goal.value:
            targets.add(len(draft.state.drawn) - 1)
    return draft.program(list(_with_all_tokens(draft.needed_tokens, targets)))


def _at_the_end(program: Program, goal: Extreme) -> dict[str, int]:
    """Places at which the tensor of a LOAD or STORE is the last that the machine can address."""
    tensor = "out" if goal.form == "STORE" else SOURCES[LOADED[goal.form][0]]
    beyond = {name: LOWEST + address for name, address in place(program)[0].items()}
    return beyond | {tensor: BEATS * program.config.axi_bytes - program.tensor(tensor).nbytes}


# --- drafts ---------------------------------------------------------------------------------------


def _draft(config: Config, seed: int, goals: Sequence[Extreme], name: str = "") -> Draft:
    table = _table(config)
    for goal in goals:
        if goal.form == MICRO_OP:
            table[1] = (0, 0, 0, 1, 1)
            table[1, [field.name for field in UOP_FORMAT].index(goal.field)] = goal.value
    label = name or f"{goals[0]}{f' and {len(goals) - 1} more' if len(goals) > 1 else ''}"
    state = RandomState(
        config=config, rng=np.random.default_rng(seed), sizes=buffer_sizes(config, len(table)), table=table
    )
    state.stored = {tensor: np.zeros(state.sizes[tensor], np.bool_) for tensor in STORED}
    if config.extensions:
        _fill_states(state)
    return Draft(f"{label} on {config.name}", state, ExtraTokens(0.0))


def _table(config: Config) -> Ints:
    """A micro-op for each place of the buffer, the first without offsets; all are whole sums."""
    depths = (config.acc_depth, config.inp_depth, config.wgt_depth)
    at = np.arange(config.uop_depth)
    offsets = [at % min(period, depth) for period, depth in zip(_PERIODS, depths, strict=True)]
    return np.stack([*offsets, np.ones_like(at), np.ones_like(at)], axis=1)


def _fill_states(state: RandomState) -> None:
    """Every row of private states is written, as far as the instructions of extensions allow."""
    _write(state, Drawn(Load(Buffer.UOP, x_size=1), UOPS))
    for buffer in (Buffer.INP, Buffer.WGT, Buffer.SCL, Buffer.ACC):
        for drawn in window_loads(state.config, state.rng, buffer, _FEW):
            _write(state, drawn)
    fill_states(state, _FILLS)


def _write(state: RandomState, drawn: Drawn) -> None:
    if not state.admit(drawn):
        raise AssertionError(f"directed program: {drawn} must be valid")


def _admit(state: RandomState, drawn: Drawn) -> None:
    """An instruction, behind what writes all that it reads."""
    begin, end = (getattr(drawn.instruction, name, 0) for name in ("uop_begin", "uop_end"))
    if not state.written[Buffer.UOP][begin:end].all():
        beats = state.config.uop_entry_bytes // state.config.axi_bytes
        _write(state, Drawn(Load(Buffer.UOP, begin, begin * beats, x_size=end - begin), UOPS))
    for buffer, mask in state.unwritten(drawn).items():
        runs = intervals(mask)
        for first, last in runs if len(runs) <= _FEW else [(runs[0][0], runs[-1][1])] if runs else ():
            if buffer is Buffer.OUT:
                _send(state, first, last)
            else:
                _load(state, buffer, first, last)
    _write(state, drawn)


def _load(state: RandomState, buffer: Buffer, first: int, last: int) -> None:
    """Entries of a buffer, from those of its tensor at the same places as far as it has them."""
    beats = state.config.entry_bytes[buffer] // state.config.axi_bytes
    size = max(state.sizes[SOURCES[buffer]], (last - first) * beats)
    state.sizes[SOURCES[buffer]] = size
    begin = min(first, size // beats - (last - first))
    _write(state, Drawn(Load(buffer, first, begin * beats, x_size=last - first), SOURCES[buffer]))


def _send(state: RandomState, first: int, last: int) -> None:
    """Results in entries of the output buffer."""
    config = state.config
    slot = config.out_depth // config.out_slots
    begin, end = first // slot, -(-last // slot)
    for at in range(begin, end, config.acc_depth):
        loop = min(config.acc_depth, end - at)
        adds = Vector(VectorOp.ADD, Operand.IMM, imm=1, loop0=loop, acc0=1, out=at, emit=Emit.RAW)
        _admit(state, Drawn(adds))


# --- targets --------------------------------------------------------------------------------------


def _target(state: RandomState, goal: Extreme, number: int) -> Drawn:
    """The instruction that has the value of a goal; its results are apart by its number."""
    if goal.form == MICRO_OP:
        return Drawn(_of_micro_op(state.config, goal))
    encoding = format_of(state.config, goal.form)
    match encoding.code:
        case Opcode.LOAD:
            return _of_load(state, goal, number)
        case Opcode.STORE:
            return _of_store(state, goal)
        case Opcode.SYNC:
            return Drawn(Sync(Unit[goal.form.split()[-1].upper()]))
        case _:
            return Drawn(_of_loops(state, encoding, goal, number))


def _of_load(state: RandomState, goal: Extreme, number: int) -> Drawn:
    buffer, widened = LOADED[goal.form]
    size = state.config.entry_bytes[Buffer.OUT if widened else buffer] // state.config.axi_bytes
    fields = {"x_size": 1, **_of_transfer(state, goal, SOURCES[buffer], state.config.depths[buffer], size)}
    name = goal.field.removesuffix(PLANES)
    if name in PADDINGS:
        fields["pad_value"] = 3 * int(goal.value > 0)
    if goal.field in PADDINGS and goal.value == state.config.depths[buffer]:
        fields[f"{name[0]}_size"] = 0  # no room for data
    if goal.field.endswith(PLANES):
        fields |= {name: goal.value, "z_size": 2, "z_stride": size}
    if name == "pad_value" or (name in ("x_size", "y_size") and not goal.value):
        fields[f"{'y' if name == 'y_size' else 'x'}_before"] = 1
    if goal.field in (*_APART, *TOKENS) or (goal.field in PADDINGS and not goal.value):
        fields["sram"] = 2 * number % state.config.depths[buffer]
    one = Load(buffer, widen=widened, **fields)
    if one.x_size and one.y_size:
        return Drawn(one, SOURCES[buffer])
    return Drawn(replace(one, dram=0, y_stride=0, z_stride=0))


def _of_store(state: RandomState, goal: Extreme) -> Drawn:
    size = state.config.out_entry_bytes // state.config.axi_bytes
    fields = _of_transfer(state, goal, "out", state.config.out_depth, size)
    if state.sizes["out"] > len(state.stored["out"]):
        state.stored["out"] = np.zeros(state.sizes["out"], np.bool_)
    return Drawn(Store(**{"x_size": 1, **fields}), "out")


def _of_transfer(state: RandomState, goal: Extreme, tensor: str, depth: int, size: int) -> dict[str, int]:
    """The field of a goal, with the strides and the tensor that a size needs.

    `size`: the beats of an entry in memory.
    """
    name, value = goal.field, goal.value
    if name == "dram":
        return {name: state.sizes[tensor] - size if value else 0}
    if name in ("z_size", "y_size", "x_size") and value == depth:
        state.sizes[tensor] = max(state.sizes[tensor], depth * size)
        return {name: value, **({} if name == "x_size" else {f"{name[0]}_stride": size})}
    return {} if name.endswith(PLANES) or name in TOKENS else {name: value}


def _of_loops(state: RandomState, encoding: Format, goal: Extreme, number: int) -> Instruction:
    """A compute instruction of a format."""
    name, value = goal.field, goal.value
    token = name in TOKENS
    fields: dict[str, Any] = loop_fields(encoding, "init" if token else name, 0 if token else value)
    if encoding.plug_in is not None:
        return encoding.cls(**_plug_in_values(state, encoding, fields, name) | fields)
    if name not in ("acc", "acc0", "acc1", "out"):
        fields |= {"acc": number, "out": number * int(bool(fields.get("emit")))}
    if encoding.code == Opcode.VECTOR:
        fields = _of_vector(state.config, name, value) | fields
    return encoding.cls(**fields)


def _of_vector(config: Config, name: str, value: int) -> dict[str, Any]:
    """Operation and operand of a VECTOR for a field."""
    from_inp = config.inp_vectors > config.acc_depth or (name == "source" and value)
    source = {"operand": Operand.SRC, "source": Source.INP if from_inp else Source.ACC}
    if name in ("src", "src0", "src1", "source") and value:
        return {"op": VectorOp.ADD, **source}
    if name in ("wgt", "wgt0", "wgt1") and value:
        return {"op": VectorOp.ADD, "operand": Operand.WGT}
    return {"op": VectorOp.ADD, "operand": Operand.IMM, "imm": int(name not in ("imm", "operand"))}


def _plug_in_values(state: RandomState, encoding: Format, fields: Mapping[str, Any], name: str) -> dict[str, int]:
    """The fields of an extension's own, with which the instruction is valid."""
    assert encoding.plug_in is not None, "the format of an extension"
    if name in {field.name for field in encoding.plug_in.fields}:
        return {}
    loops = {"loop0": 1, "loop1": 1}
    return own_values(state, encoding, {**loops, **fields}, _FILLS) or {}


def _of_micro_op(config: Config, goal: Extreme) -> Instruction:
    """A compute instruction of the second micro-op, which has the value."""
    second: dict[str, Any] = {"uop_begin": 1, "uop_end": 2}
    if goal.field == "src" and goal.value >= config.inp_depth:
        return Vector(**_of_vector(config, "src", goal.value), **second)
    if goal.field == "wgt" and goal.value >= config.wgt_depth:
        return Vector(**_of_vector(config, "wgt", goal.value), **second)
    return Gemm(init=1, emit=Emit.NONE if goal.field == "acc" else Emit.RAW, **second)


# --- tokens ---------------------------------------------------------------------------------------


def _with_all_tokens(places: Sequence[IssuedOp], targets: Collection[int]) -> Iterator[IssuedOp]:
    """Some operations pop and push every token that their unit can; SYNCs are the other ends."""
    for issued in places:
        if issued.op is None or issued.op not in targets:
            yield issued
            continue
        unit = issued.unit
        producers = [Unit(producer) for producer, consumer in QUEUES if consumer == unit]
        consumers = [Unit(consumer) for producer, consumer in QUEUES if producer == unit]
        yield from (IssuedOp(None, one, _NONE, frozenset({unit})) for one in producers if one not in issued.pops)
        yield replace(issued, pops=frozenset(producers), pushes=frozenset(consumers))
        yield from (IssuedOp(None, one, frozenset({unit}), _NONE) for one in consumers if one not in issued.pushes)


def _behind(config: Config, seed: int) -> Program:
    """A program whose tokens are all pushed by SYNCs, behind the instructions that they order."""
    draft = _draft(config, seed, (), "SYNCs that push")
    state = draft.state
    entry = config.out_entry_bytes // config.axi_bytes
    for number in range(2):  # so that each unit waits for the one before and for the one behind
        _admit(state, Drawn(Load(Buffer.INP, dram=number, x_size=1), SOURCES[Buffer.INP]))
        _admit(state, Drawn(Gemm(uop_end=1, init=1, emit=Emit.RAW)))
        _admit(state, Drawn(Store(dram=number * entry, x_size=1), "out"))
    places = list[IssuedOp]()
    for issued in draft.needed_tokens:
        places.append(replace(issued, pushes=_NONE))
        places += [IssuedOp(None, issued.unit, _NONE, issued.pushes)] * bool(issued.pushes)
    return draft.program(places)


def _far(config: Config, seed: int, name: str) -> Program:
    """Two rows or planes as far apart as a stride reaches, stored and loaded by either unit."""
    draft = _draft(config, seed, (), f"the greatest {name}")
    state, stride = draft.state, limits(config, "STORE")[name][1]
    widest = max(config.inp_entry_bytes, config.acc_entry_bytes)
    count = -(-widest // config.out_entry_bytes)  # entries of results for one of each buffer
    beats = FAR_BYTES // config.axi_bytes + count * config.out_entry_bytes // config.axi_bytes
    state.sizes["tmp"], state.stored["tmp"] = beats, np.zeros(beats, np.bool_)
    rows = {STRIDES[name]: 2, name: stride}
    _admit(state, Drawn(Store(x_size=count, **rows), "tmp"))
    for buffer in (Buffer.INP, Buffer.ACC):
        _admit(state, Drawn(Load(buffer, x_size=1, **rows), "tmp"))
    return draft.program(draft.needed_tokens)

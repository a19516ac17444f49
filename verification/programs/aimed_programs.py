# SPDX-License-Identifier: Apache-2.0
"""Random programs aimed at one field of one form of instruction, which is driven to its extremes.

    aim = aim_of(config, "load.y_after")
    program = aimed_program(config, aim, seed=7)

Every field of every format of the configuration can be aimed at, those of extensions included. As
of all random programs, each is verified, and reads only what was written before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.isa import (
    Buffer,
    Emit,
    Format,
    Instruction,
    IsaError,
    Load,
    Opcode,
    Operand,
    Slot,
    Sync,
    Unit,
    Vector,
    VectorOp,
    check_rules,
    instruction_columns,
    isa_of,
)
from vdla.hardware.program import Program
from vdla.support.errors import Error
from vdla.support.suggest import one_of
from vdla.verification.programs.random_programs import (
    EXTENDED,
    KINDS,
    LOADED,
    Draft,
    random_draft,
    random_instruction,
)
from vdla.verification.programs.random_state import Drawn, RandomState
from vdla.verification.programs.random_tokens import ExtraTokens, with_extra_tokens

COUNT = 40
"""Instructions of a program."""
_CONTEXT = 14  # the first ones, which fill the buffers and are of all kinds
_SHARE = 0.75  # of the later ones that are aimed
_DRAWS = 3  # of an instruction, of which the one nearest to the goal counts
_MOST = 96  # beats or iterations of an instruction before its field is driven
_SHARE_OF_TOKENS = 0.5  # likewise, of a field of tokens: the others are SYNCs that give and take them
_SYNCS = tuple(f"sync_{unit.label}" for unit in Unit)
_TOKEN_SHARES = (0.2, 0.6, 1.0)
_TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")
_ONES = ("z_size", "y_size", "x_size", "loop0", "loop1")
_ZEROS = ("sram", "z_stride", "y_stride", "y_before", "y_after", "x_before", "x_after", "out", "acc0", "acc1", "src0",
          "src1", "wgt0", "wgt1", "scl0", "scl1")  # fmt: skip


class AimError(Error, ValueError):
    """A field that cannot be aimed at."""


@dataclass(frozen=True, slots=True)
class FieldAim:
    """A field of a format of a machine."""

    encoding: Format
    slot: Slot

    @property
    def name(self) -> str:
        """The name of the field."""
        return self.slot.field.name

    def __str__(self) -> str:
        return f"{self.encoding.name.lower()}.{self.name}"

    def values(self, program: Program) -> list[int]:
        """The values of the field in the instructions of the format of a program."""
        codes = isa_of(program.config).codes_of_columns(program.columns)
        rows: list[int] = program.columns[codes == self.encoding.code, self.encoding.column(self.name)].tolist()
        return rows


def aim_of(config: Config, text: str) -> FieldAim:
    """The field that a text such as "load.y_after" names; AimError lists the choices."""
    form, dot, name = text.partition(".")
    isa = isa_of(config)
    forms = [encoding.name.lower() for encoding in isa.formats.values()]
    encoding = isa.format_named(form)
    if encoding is None:
        raise AimError(f"compare: form of --random must be {one_of(form or 'nothing', forms)}")
    slots = {slot.field.name: slot for slot in encoding.values}
    if not dot or name not in slots:
        raise AimError(f"compare: field of {form} must be {one_of(name or 'nothing', slots)}")
    return FieldAim(encoding, slots[name])


def aimed_program(config: Config, aim: FieldAim, seed: int, count: int = COUNT) -> Program:
    """A verified program of `count` instructions, most of which have the field at an extreme."""
    draft = random_draft(config, seed, min(count, _CONTEXT))
    state, extra = draft.state, draft.extra
    if aim.name in _TOKENS:
        extra = ExtraTokens(float(state.rng.choice(_TOKEN_SHARES)))
    if aim.encoding.code == Opcode.STORE:
        _fill_results(state)
    others = _SYNCS if aim.name in _TOKENS else _every_kind(config)
    share = _SHARE_OF_TOKENS if aim.name in _TOKENS else _SHARE
    while len(state.drawn) < count:
        if not (state.chance(share) and _admit_aimed(state, aim)):
            _admit_other(state, others)
    drafted = Draft(f"{aim}_{config.name}_{seed}", state, extra)
    return drafted.program(with_extra_tokens(drafted.needed_tokens, state.rng, extra))


def _fill_results(state: RandomState) -> None:
    """Sums of padding, sent to the output buffer as far as both reach: much to store."""
    config, acc, last = state.config, state.uops[:, 0], state.uops[:, 4]
    micro_ops = np.flatnonzero((acc == 0) & (last > 0) & state.written[Buffer.UOP])
    if not len(micro_ops):
        return
    begin, slots = int(micro_ops[0]), min(config.acc_depth, config.out_slots)
    state.admit(Drawn(Load(Buffer.ACC, z_size=config.acc_depth, x_size=0, x_before=1, pad_value=state.one((-1, 1)))))
    state.admit(
        Drawn(
            Vector(
                VectorOp.ADD, Operand.IMM, imm=1, uop_begin=begin, uop_end=begin + 1, loop0=slots, acc0=1, emit=Emit.RAW
            )
        )
    )


def _every_kind(config: Config) -> tuple[str, ...]:
    return (*KINDS, *(EXTENDED + plug_in.name for plug_in in config.extensions))


def _admit_other(state: RandomState, kinds: Sequence[str]) -> None:
    """An instruction of one of some kinds; a SYNC where the draw does not fit."""
    drawn = random_instruction(state, kinds[int(state.rng.integers(len(kinds)))], _MOST)
    if drawn is None or not state.admit(drawn):
        state.admit(Drawn(Sync(Unit.COMPUTE)))


def _admit_aimed(state: RandomState, aim: FieldAim) -> bool:
    """The draw that comes nearest to a goal of the field; whether any fits."""
    goal = state.one(_goals(state, aim.slot))
    kinds, best = list(_kinds(aim.encoding)), None
    for _ in range(_DRAWS):
        drawn = random_instruction(state, kinds[int(state.rng.integers(len(kinds)))], _MOST)
        for base in () if drawn is None else (drawn, _smallest(drawn, aim.name)):
            driven = _driven(state, base, aim.slot, goal)
            if driven is not None and (best is None or _miss(driven, aim, goal) < _miss(best, aim, goal)):
                best = driven
        if best is not None and _miss(best, aim, goal) == 0:
            break
    return best is not None and state.admit(best)


def _goals(state: RandomState, slot: Slot) -> list[int]:
    """Extremes first: the ends of the range, next to them, around 0, powers of two, any."""
    low, high = slot.low, slot.high
    power = 1 << int(state.rng.integers(slot.width))
    anything = int(state.rng.integers(low, high + 1))
    wanted = [low, low, high, high, low + 1, high - 1, 0, 1, -1, power, power - 1, anything]
    return [value for value in wanted if low <= value <= high]


def _kinds(encoding: Format) -> Iterator[str]:
    """The kinds of random instructions that a format has."""
    name = encoding.name.lower()
    if encoding.plug_in is not None:
        yield EXTENDED + encoding.plug_in.name
    elif name == "load":
        yield from LOADED
    elif name == "sync":
        yield from _SYNCS
    else:
        yield name


def _miss(drawn: Drawn, aim: FieldAim, goal: int) -> int:
    return abs(int(getattr(drawn.instruction, aim.name)) - goal)


# --- values ---------------------------------------------------------------------------------------


def _driven(state: RandomState, base: Drawn, slot: Slot, goal: int) -> Drawn | None:
    """The instruction with the value that is nearest to the goal by bisection; None if it is not
    valid to begin with. What has names, such as a buffer, is as it was drawn.
    """
    name = slot.field.name
    best = base if slot.field.enum is not None else _with(base, name, goal)
    if _fits(state, best):
        return best
    if best is base or not _fits(state, base):
        return None
    best, near, far = base, int(getattr(base.instruction, name)), goal
    while abs(far - near) > 1:
        middle = (near + far) // 2
        candidate = _with(base, name, middle)
        if _fits(state, candidate):
            best, near = candidate, middle
        else:
            far = middle
    return best


def _fits(state: RandomState, drawn: Drawn) -> bool:
    """Whether an instruction is valid at this point."""
    one = drawn.instruction
    if drawn.tensor is None and isinstance(one, Load) and one.x_size and one.y_size:
        return False
    try:
        columns = instruction_columns(state.config, [one])
        check_rules(state.config, columns)
    except IsaError:
        return False
    return _loads_whole_micro_ops(state.config, one) and state.admissible(drawn, columns[0].tolist())


def _loads_whole_micro_ops(config: Config, instruction: Instruction) -> bool:
    """Whether a LOAD of micro-ops begins every row at one."""
    if not isinstance(instruction, Load) or instruction.buffer != Buffer.UOP:
        return True
    beats = config.uop_entry_bytes // config.axi_bytes
    return all(place % beats == 0 for place in (instruction.dram, instruction.y_stride, instruction.z_stride))


def _smallest(drawn: Drawn, name: str) -> Drawn:
    """The instruction with as little work as it can have: then a field has the most room."""
    known = {field.name for field in fields(drawn.instruction)} - {name}
    changes: dict[str, Any] = {one: 1 for one in _ONES if one in known and getattr(drawn.instruction, one) > 1}
    changes |= {zero: 0 for zero in _ZEROS if zero in known}
    if name == "pad_value":
        changes["x_before"] = 1  # else it must be 0
    if "uop_end" in known:
        changes["uop_end"] = int(getattr(drawn.instruction, "uop_begin")) + 1  # noqa: B009  not of all
    return _padded(Drawn(replace(drawn.instruction, **changes), drawn.tensor))


def _with(drawn: Drawn, name: str, value: int) -> Drawn:
    """The instruction with a value, and with what other fields must be for it."""
    instruction = drawn.instruction
    changes: dict[str, Any] = {name: value}
    match name:
        case "uop_begin":
            changes["uop_end"] = max(value + 1, int(getattr(instruction, "uop_end")))  # noqa: B009
        case "clip_lo":
            changes["clip_hi"] = max(value, int(getattr(instruction, "clip_hi")))  # noqa: B009
        case "clip_hi":
            changes["clip_lo"] = min(value, int(getattr(instruction, "clip_lo")))  # noqa: B009
    return _padded(Drawn(replace(instruction, **changes), drawn.tensor))


def _padded(drawn: Drawn) -> Drawn:
    """A LOAD without data has padding, but no address and no strides."""
    one = drawn.instruction
    if not isinstance(one, Load) or (one.x_size > 0 and one.y_size > 0):
        return drawn
    changes: dict[str, Any] = {"dram": 0, "z_stride": 0, "y_stride": 0}
    for axis in "yx":
        size, before, after = (int(getattr(one, f"{axis}_{part}")) for part in ("size", "before", "after"))
        if size + before + after == 0:
            changes[f"{axis}_before"] = 1
    return Drawn(replace(one, **changes), None)

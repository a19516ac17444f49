# SPDX-License-Identifier: Apache-2.0
"""The rules of a valid instruction beyond the widths of its fields.

A row of RULES has the formats, the field that is reported, a test over columns, and the rule in
words; plug-ins add rows of their own. Each test covers a whole program; the first invalid
instruction is reported. The bounds of buffers and tensors are the verifier's task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from vdla.hardware.isa.formula import Formula
from vdla.hardware.isa.instructions import EXTENSION, Buffer, Emit, Opcode, Operand, Source, StagedEmit, Unit, VectorOp
from vdla.hardware.isa.plug_in import OldSum, PlugIn
from vdla.hardware.isa.sizes import Sizes
from vdla.support.arrays import Bools, Ints
from vdla.support.errors import Error

Values = Ints
Mask = Bools
Columns = Callable[[str], Values]


class IsaError(Error, ValueError):
    """An invalid instruction; `problem` is the message without the place."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Rule:
    """`field must <words>` in the formats `opcodes`; `holds` tests each row of columns."""

    opcodes: tuple[int, ...]
    field: str
    words: str
    holds: Callable[[Columns, Sizes], Mask]


LOADS = (Opcode.LOAD,)
DMAS = (Opcode.LOAD, Opcode.STORE)
LOOPED = (Opcode.GEMM, Opcode.VECTOR)
VECTORS = (Opcode.VECTOR,)
ALL = tuple(Opcode)


def _at_least_one(opcodes: tuple[int, ...], field: str) -> Rule:
    return Rule(opcodes, field, "be at least 1", lambda c, _: c(field) >= 1)


def _zero_unless(opcodes: tuple[int, ...], field: str, when: str, used: Callable[[Columns], Mask]) -> Rule:
    return Rule(opcodes, field, f"be 0 unless {when}", lambda c, _: (c(field) == 0) | used(c))


def _padded_buffer(c: Columns) -> Mask:
    return is_one_of(c("buffer"), (Buffer.INP, Buffer.ACC))


def _has_padding(c: Columns) -> Mask:
    return np.asarray(c("y_before") + c("y_after") + c("x_before") + c("x_after") > 0, np.bool_)


def _has_data(c: Columns) -> Mask:
    return np.asarray((c("y_size") > 0) & (c("x_size") > 0), np.bool_)


def _fits_element(c: Columns, config: Sizes) -> Mask:
    half = 1 << (config.inp_bits - 1)
    value = c("pad_value")
    return np.asarray((c("buffer") == Buffer.ACC) | ((value >= -half) & (value < half)), np.bool_)


def _requantises(c: Columns) -> Mask:
    return is_one_of(c("emit"), (StagedEmit.REQUANT, StagedEmit.STAGE))


def _reads_source(c: Columns) -> Mask:
    return np.asarray((c("operand") == Operand.SRC) | (c("op") == VectorOp.MAC), np.bool_)


def _reads_weights(c: Columns) -> Mask:
    return np.asarray(c("operand") == Operand.WGT, np.bool_)


_REQUANTISED, _EMITTED = "emit is REQUANT", "emit is REQUANT or RAW"
_STAGED_WORDS = {
    f"be 0 unless {_REQUANTISED}": "be 0 unless emit is REQUANT or STAGE",
    f"be 0 unless {_EMITTED}": "be 0 unless emit is REQUANT, RAW or STAGE",
}
REQUANT_FIELDS = ("scl", "scl0", "scl1", "zero_point", "clip_lo", "clip_hi")

RULES: tuple[Rule, ...] = (
    Rule(ALL, "pop_prev", "be 0 in the load unit", lambda c, _: (c("pop_prev") == 0) | (c("unit") != Unit.LOAD)),
    Rule(ALL, "push_prev", "be 0 in the load unit", lambda c, _: (c("push_prev") == 0) | (c("unit") != Unit.LOAD)),
    Rule(ALL, "pop_next", "be 0 in the store unit", lambda c, _: (c("pop_next") == 0) | (c("unit") != Unit.STORE)),
    Rule(ALL, "push_next", "be 0 in the store unit", lambda c, _: (c("push_next") == 0) | (c("unit") != Unit.STORE)),
    Rule(LOADS, "buffer", "be one of INP, WGT, SCL, UOP, ACC", lambda c, _: c("buffer") != Buffer.OUT),
    _zero_unless(LOADS, "widen", "buffer is ACC", lambda c: c("buffer") == Buffer.ACC),
    *(
        _zero_unless(LOADS, name, "buffer is INP or ACC", _padded_buffer)
        for name in ("y_before", "y_after", "x_before", "x_after")
    ),
    _zero_unless(LOADS, "pad_value", "there is padding", _has_padding),
    Rule(LOADS, "pad_value", "fit an element of the input buffer", _fits_element),
    _at_least_one(DMAS, "z_size"),
    *(_at_least_one((Opcode.STORE,), name) for name in ("y_size", "x_size")),
    Rule(
        LOADS, "y_size", "be at least 1 with its padding", lambda c, _: c("y_before") + c("y_size") + c("y_after") >= 1
    ),
    Rule(
        LOADS, "x_size", "be at least 1 with its padding", lambda c, _: c("x_before") + c("x_size") + c("x_after") >= 1
    ),
    *(_zero_unless(LOADS, name, "there is data", _has_data) for name in ("dram", "z_stride", "y_stride")),
    Rule(LOOPED, "uop_end", "be greater than uop_begin", lambda c, _: c("uop_end") > c("uop_begin")),
    *(_at_least_one(LOOPED, name) for name in ("loop0", "loop1")),
    *(_zero_unless(LOOPED, name, _REQUANTISED, _requantises) for name in REQUANT_FIELDS),
    _zero_unless(LOOPED, "out", _EMITTED, lambda c: c("emit") != Emit.NONE),
    Rule(LOOPED, "clip_lo", "be at most clip_hi", lambda c, _: c("clip_lo") <= c("clip_hi")),
    Rule(VECTORS, "source", "be ACC unless src is read", lambda c, _: (c("source") == Source.ACC) | _reads_source(c)),
    *(_zero_unless(VECTORS, name, "operand is SRC or op is MAC", _reads_source) for name in ("src", "src0", "src1")),
    *(_zero_unless(VECTORS, name, "operand is WGT", _reads_weights) for name in ("wgt", "wgt0", "wgt1")),
    _zero_unless(VECTORS, "imm", "operand is IMM", lambda c: c("operand") == Operand.IMM),
)


# --- plug-ins ------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def rules_of(config: Sizes) -> tuple[Rule, ...]:
    """The rules of a configuration: those of loops hold for plug-ins as well."""
    rules = RULES if config.stage is None else tuple(map(_staged, RULES))
    if not config.extensions:
        return rules
    shared = (_shared(rule) if Opcode.GEMM in rule.opcodes else rule for rule in rules)
    plug_in_checks = (rule for plug_in in config.extensions for rule in plug_in_rules(config, plug_in))
    return (*shared, *plug_in_checks)


def _staged(rule: Rule) -> Rule:
    """A rule in the words of a machine with a stage, where STAGE has the fields of REQUANT."""
    return replace(rule, words=_STAGED_WORDS.get(rule.words, rule.words))


def _shared(rule: Rule) -> Rule:
    return replace(rule, opcodes=(*rule.opcodes, EXTENSION))


def plug_in_rules(config: Sizes, plug_in: PlugIn) -> Iterator[Rule]:
    """The rules of one plug-in's instruction."""
    number = list(config.extensions).index(plug_in)
    used = {port.index for port in plug_in.states}
    ports = {"acc": plug_in.has_result, "src": plug_in.src is not None, "wgt": plug_in.wgt is not None}
    unused = [name for name, has_port in ports.items() if not has_port and name not in used]
    zero = [f"{index}{loop}" for index in unused for loop in ("", "0", "1")]
    if plug_in.old is not OldSum.ACCUMULATE:
        zero.append("init")
    for field in zero:
        yield _of_plug_in(number, field, f"be 0 in {plug_in.name}", _zero(field))
    if not plug_in.writes_sums:
        words = f"be NONE in {plug_in.name}, which computes no sums"
        yield _of_plug_in(number, "emit", words, _zero("emit"))
    elif config.stage is not None and {port.state for port in config.stage.states} & set(plug_in.written_states):
        words = f"be other than STAGE in {plug_in.name}, which writes what the stage reads"
        yield _of_plug_in(number, "emit", words, lambda c: np.asarray(c("emit") != StagedEmit.STAGE, np.bool_))
    for what, formula, least in (("interval", plug_in.interval, 1), ("latency", plug_in.latency, 0)):
        for field in formula.names[:1]:
            words = f"keep the {what} of {plug_in.name}, {formula.text}, at least {least}"
            yield _of_plug_in(number, field, words, _at_least(plug_in, formula, least))


def _of_plug_in(number: int, field: str, words: str, holds: Callable[[Columns], Mask]) -> Rule:
    return Rule((EXTENSION,), field, words, lambda c, _: (c("extension") != number) | holds(c))


def _zero(field: str) -> Callable[[Columns], Mask]:
    return lambda c: np.asarray(c(field) == 0, np.bool_)


def _at_least(plug_in: PlugIn, formula: Formula, least: int) -> Callable[[Columns], Mask]:
    return lambda c: np.asarray(formula.value(own_fields(plug_in, c)) >= least, np.bool_)


def own_fields(plug_in: PlugIn, columns: Columns) -> Columns:
    """Access to the fields of a plug-in's instruction by their own names."""
    names = {field.name for field in plug_in.fields}
    return lambda name: columns(f"{plug_in.name}.{name}" if name in names else name)


# --- the check -----------------------------------------------------------------------------------


def first_broken(config: Sizes, columns: Values, index_of: dict[str, int]) -> tuple[int, Rule] | None:
    """The first instruction that breaks a rule and the first rule it breaks; None if all hold."""
    worst: tuple[int, Rule] | None = None
    opcode = columns[:, index_of["opcode"]]
    for opcodes, rules in _grouped(config):
        rows = np.flatnonzero(is_one_of(opcode, opcodes))
        part = columns[rows]
        for rule in rules if len(rows) else ():
            broken = ~rule.holds(reader(part, index_of), config)
            if broken.any():
                row = int(rows[int(broken.argmax())])
                worst = (row, rule) if worst is None or row < worst[0] else worst
    return worst


def is_one_of(values: Values, choices: Iterable[int]) -> Mask:
    """Where values are among a few; `np.isin` takes ten times as long for a single word."""
    result = np.zeros(values.shape, np.bool_)
    for choice in choices:
        result |= values == choice
    return result


def reader(columns: Values, index_of: dict[str, int]) -> Columns:
    """Access to columns by name."""
    return lambda name: columns[:, index_of[name]]


@lru_cache(maxsize=64)
def _grouped(config: Sizes) -> list[tuple[tuple[int, ...], list[Rule]]]:
    groups: dict[tuple[int, ...], list[Rule]] = {}
    for rule in rules_of(config):
        groups.setdefault(rule.opcodes, []).append(rule)
    return list(groups.items())

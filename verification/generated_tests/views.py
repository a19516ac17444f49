# SPDX-License-Identifier: Apache-2.0
"""The views of a machine that know the instructions of extensions, each against the declarations.

Every view answers with the first disagreement on a program as text, or None. They are asked in the
order of `VIEWS`: each relies on those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_changes
from enum import Enum
from functools import cached_property

import numpy as np

from vdla.hardware.asm import assemble, disassemble
from vdla.hardware.asm.disassembler import TOKENS, row_text
from vdla.hardware.config import Buffer
from vdla.hardware.isa import COL, EXTENSION, BufferAccess, IsaError, StateAccess, check, isa_of, with_fields
from vdla.hardware.program import UOPS, Program, place
from vdla.simulator.function import Engine, token_order
from vdla.simulator.simulate import dram_image
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import time_program
from vdla.simulator.verify import Kind, verify
from vdla.simulator.verify.accesses import AccessWalk
from vdla.support.arrays import Bytes, Ints
from vdla.verification.adversary import attack
from vdla.verification.generated_tests.cycles import ExpectedTimes, issue_cycles
from vdla.verification.generated_tests.operands import Contents, Space
from vdla.verification.generated_tests.steps import DeclaredInstruction, Fields, declared_fields, number_of
from vdla.verification.programs.device_pair import Comparator, Conditions
from vdla.verification.programs.mutation import mutants
from vdla.verification.programs.random_data import random_arrays

MUTANTS = 2
"""Mutants of the extensions' instructions of each program, on which verifier and adversary must
agree.
"""
MOST_ITEMS = 1 << 16
_NO_MICRO_OPS: Ints = np.zeros((0, 5), np.int64)


class View(str, Enum):
    """A part that knows the instructions of extensions."""

    DECODER = "decoder"
    ASSEMBLER = "assembler"
    FOOTPRINT = "footprint"
    VERIFIER = "verifier"
    FUNCTION = "function"
    TIMING = "timing"
    RTL = "RTL"


@dataclass(frozen=True)
class TestedProgram:
    """A program of the declared machine, and the same one on the machine that is judged."""

    program: Program
    judged: Program
    declared: Sequence[DeclaredInstruction]
    seed: int
    compare: Comparator | None = None

    @cached_property
    def instructions(self) -> list[tuple[int, DeclaredInstruction, Fields]]:
        """The place, the declaration and the fields of each instruction of an extension."""
        opcodes = self.program.columns[:, COL["opcode"]]
        words, config = self.program.words, self.program.config
        places = np.flatnonzero(opcodes == EXTENSION).tolist()
        instructions = [(k, self.declared[number_of(words[k], config)]) for k in places]
        return [
            (k, instruction, declared_fields(words[k], instruction.extension, instruction.config))
            for k, instruction in instructions
        ]


def _name(index: int, declared: DeclaredInstruction) -> str:
    return f"instruction {index} ({declared.extension.name.upper()})"


# --- decoder --------------------------------------------------------------------------------------


def decoder(case: TestedProgram) -> str | None:
    """Names and fields of the words."""
    isa = isa_of(case.judged.config)
    for k, declared, fields in case.instructions:
        row = case.judged.columns[k]
        encoding = isa.format_at(row)
        if encoding.name != declared.extension.name.upper():
            return f"{_name(k, declared)} must be decoded as such, got {encoding.name}"
        for name, value in fields.items():
            if int(row[encoding.column(name)]) != value:
                return f"{_name(k, declared)}: {name} must be {value}, got {int(row[encoding.column(name)])}"
    return None


# --- assembler ------------------------------------------------------------------------------------


def assembler(case: TestedProgram) -> str | None:
    """The text of instructions, with names and fields as declared; words of the text, and back.

    Text names what the machine was made of, so this is asked of the declared machine.
    """
    program = _without_data(case.program)
    text = disassemble(program)
    again = assemble(text)
    for k, declared, fields in case.instructions:
        line = row_text(program, k)
        said = _misprinted(line, declared, fields)
        if said:
            return f"{_name(k, declared)}: {said}, got {line}"
        if (again.words[k] != program.words[k]).any():
            return f"{_name(k, declared)}: {line} must be assembled to its word, got that of {row_text(again, k)}"
    return None if disassemble(again) == text else "text that was assembled must be disassembled to the same"


def _without_data(program: Program) -> Program:
    """The program with tensors of unknown bytes, which would be most of the text."""
    tensors = (
        tensor if tensor.name == UOPS else with_changes(tensor, role="input", data=None) for tensor in program.tensors
    )
    return with_changes(program, tensors=tuple(tensors))


def _misprinted(line: str, declared: DeclaredInstruction, fields: Fields) -> str:
    """What the text of an instruction must have and has not; empty if it is as declared."""
    mnemonic, *words = line.split()
    if mnemonic != declared.extension.name:
        return f"text must begin with {declared.extension.name}"
    printed = dict(word.split("=") for word in words)
    for key, names in TOKENS.items():
        tokens = sum(fields[name] for name in names)
        if tokens != (len(printed[key].split(",")) if key in printed else 0):
            return f"text must have {tokens} tokens to {key}"
    for field in declared.extension.fields:
        if int(printed.get(field.name, 0)) != fields[field.name]:
            return f"text must have {field.name}={fields[field.name]}"
    return ""


# --- footprint ------------------------------------------------------------------------------------


def footprint(case: TestedProgram) -> str | None:
    """The entries that each instruction reads and writes."""
    declared_at = {k: (declared, fields) for k, declared, fields in case.instructions}
    walk = AccessWalk(case.judged)
    for k, row in enumerate(case.judged.columns.tolist()):
        buffer_accesses = [access for _, access in walk.visit(k, row)]
        if k not in declared_at:
            continue
        if walk.findings:
            return f"a valid program must keep its bounds, got: {walk.findings[0].message}"
        declared, fields = declared_at[k]
        kernel = walk.kernel(row)
        accesses: list[BufferAccess | StateAccess] = [*buffer_accesses, *walk.footprints.state_accesses(row, kernel)]
        touched = declared.touched(fields, _NO_MICRO_OPS if kernel is None else kernel.columns)
        for writes, expected in ((False, touched.reads), (True, touched.writes)):
            text = _first_set(expected, _entries(case, accesses, writes))
            if text:
                return f"{_name(k, declared)} must {'write' if writes else 'read'} {text}"
    return None


def _entries(
    case: TestedProgram, accesses: Sequence[BufferAccess | StateAccess], writes: bool
) -> dict[Space, set[int]]:
    result: dict[Space, set[int]] = {}
    for access in accesses:
        space, depth = _space(case, access)
        if space is not None and access.writes == writes:
            result.setdefault(space, set()).update(np.arange(depth)[access.where].tolist())
    return result


def _space(case: TestedProgram, access: BufferAccess | StateAccess) -> tuple[Space | None, int]:
    """What an access is in, and its entries or rows; None for DRAM."""
    if isinstance(access, StateAccess):
        return access.state.label, access.state.rows
    return access.buffer, 0 if access.buffer is None else case.judged.config.depths[access.buffer]


def _first_set(expected: Mapping[Space, set[int]], got: Mapping[Space, set[int]]) -> str:
    for space in [*expected, *(space for space in got if space not in expected)]:
        wanted, entries = expected.get(space, set()), got.get(space, set())
        if wanted != entries:
            name = f"{space.name.lower()} entries" if isinstance(space, Buffer) else f"{space} rows"
            return f"{name} {_listed(wanted)}, got {_listed(entries)}"
    return ""


def _listed(entries: set[int]) -> str:
    shown = sorted(entries)
    return f"{shown[:8]}{' ...' if len(shown) > 8 else ''}" if shown else "none"


# --- verifier -------------------------------------------------------------------------------------


def verifier(case: TestedProgram) -> str | None:
    """The program is accepted; stray fields and every mutant that the adversary harms are not."""
    verdict = verify(case.judged)
    if not verdict.ok:
        return f"a safe program must be accepted, got: {verdict.findings[0].message}"
    return _stray_field(case) or _missed_mutant(case)


def _stray_field(case: TestedProgram) -> str | None:
    """An index or mark that an instruction does not use, and that may be other than 0.

    The first instruction of each extension stands for all, since no other field has a say in it.
    """
    firsts = {declared.extension.name: (k, declared) for k, declared, _ in reversed(case.instructions)}
    for k, declared in firsts.values():
        for name in declared.unused():
            word = case.judged.words[k : k + 1]
            changed = with_fields(case.judged.config, word, {name: np.array([1], np.int64)})
            if _accepted(case, changed):
                return f"{_name(k, declared)}: {name} must be refused unless it is 0, got accepted"
    return None


def _accepted(case: TestedProgram, word: Bytes) -> bool:
    try:
        check(case.judged.config, word)
    except IsaError:
        return False
    return True


def _missed_mutant(case: TestedProgram) -> str | None:
    among = [k for k, _, _ in case.instructions]
    for mutant in mutants(case.program, MUTANTS, np.random.default_rng(case.seed), among):
        verdict = verify(with_changes(mutant.program, config=case.judged.config))
        if not verdict.ok or Kind.ENCODING in verify(mutant.program).kinds():
            continue
        result = attack(mutant.program, case.seed, most_items=MOST_ITEMS)
        if result.harmful:
            return f"a program with {mutant.change} must be refused ({result.harm.value}), got accepted"
    return None


# --- function -------------------------------------------------------------------------------------


def function(case: TestedProgram) -> str | None:
    """The contents of all buffers after each instruction."""
    _, dram = dram_image(case.program, random_arrays(case.program, case.seed))
    columns = case.judged.linked_columns(place(case.judged)[0])
    engine = Engine(case.judged.config, columns, dram, portable=True)
    declared_at = {k: (declared, fields) for k, declared, fields in case.instructions}
    for k in token_order(columns).tolist():
        if k not in declared_at:
            engine.execute(k)
            continue
        declared, fields = declared_at[k]
        expected = _contents(engine)
        micro_ops = expected[Buffer.UOP][fields["uop_begin"] : fields["uop_end"]]
        declared.run(fields, micro_ops, expected)
        try:
            engine.execute(k)
        except SimulationError as error:
            return f"a valid program must run, got: {error}"
        text = _first_value(expected, _contents(engine))
        if text:
            return f"{_name(k, declared)}: {text}"
    return None


def _contents(engine: Engine) -> Contents:
    result: Contents = {buffer: entries for buffer, entries in engine.buffers.contents().items()}
    return result | {state.label: rows.copy() for state, rows in engine.buffers.states.items()}


def _first_value(expected: Contents, got: Contents) -> str:
    for space, wanted in expected.items():
        differing = np.argwhere(wanted != got[space])
        if len(differing):
            entry, element = differing[0].tolist()
            name = space.name.lower() if isinstance(space, Buffer) else space
            where = f"{name} entry {entry}, element {element}"
            return f"{where} must be {wanted[entry, element]}, got {got[space][entry, element]}"
    return ""


# --- timing ---------------------------------------------------------------------------------------


def timing(case: TestedProgram) -> str | None:
    """The cycles in which instructions start and end."""
    stats = time_program(case.judged)
    columns = case.judged.columns
    kinds = isa_of(case.judged.config).codes_of_columns(columns).tolist()
    expected = ExpectedTimes(case.program.config, columns, kinds, stats)
    cycles = {k: _cycles(declared, fields) for k, declared, fields in case.instructions}
    for k, declared, _ in case.instructions:
        start, end = expected.of(k, cycles)
        for what, wanted, got in (("start", start, stats.starts[k]), ("end", end, stats.ends[k])):
            if wanted != got:
                return f"{_name(k, declared)} must {what} in cycle {wanted}, got {got}"
    return None


def _cycles(declared: DeclaredInstruction, fields: Fields) -> int:
    steps = fields["loop0"] * fields["loop1"] * (fields["uop_end"] - fields["uop_begin"])
    return issue_cycles(declared, fields, steps)


# --- RTL ------------------------------------------------------------------------------------------


def rtl(case: TestedProgram) -> str | None:
    """Times, counters, memory and buffers of simulator and RTL, where there is one."""
    if case.compare is None:
        return None
    return case.compare(case.judged, random_arrays(case.program, case.seed), Conditions()).difference or None


VIEWS: Mapping[View, Callable[[TestedProgram], str | None]] = {
    View.DECODER: decoder,
    View.ASSEMBLER: assembler,
    View.FOOTPRINT: footprint,
    View.VERIFIER: verifier,
    View.FUNCTION: function,
    View.TIMING: timing,
    View.RTL: rtl,
}
"""What is asked of each view, in order."""

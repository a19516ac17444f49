# SPDX-License-Identifier: Apache-2.0
"""Shrinking: reduces a failing program to a small one that is still verified and still fails.

    small = shrink(program, lambda candidate: not compare(candidate))

Instructions are removed first, in halves, quarters and so on; then tokens; then fields become
simpler. `fails` must be deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from vdla.compiler.codegen.vdla import QUEUES, Edge, IssuedOp, Queue, Touch, UnitOp, assign_tokens
from vdla.hardware.isa import Emit, Instruction, IsaError, Sync, Unit, decode, encode, unit_of
from vdla.hardware.program import Program
from vdla.simulator.verify import verify
from vdla.simulator.verify.accesses import program_accesses

MOST_TRIES = 600
REQUANT = {"scl": 0, "scl0": 0, "scl1": 0, "zero_point": 0, "clip_lo": 0, "clip_hi": 0}
NO_PADDING = {"y_before": 0, "y_after": 0, "x_before": 0, "x_after": 0, "pad_value": 0}


def shrink(program: Program, fails: Callable[[Program], bool], most_tries: int = MOST_TRIES) -> Program:
    """A verified program that `fails`: a simpler part of `program`, or `program` itself."""
    search = _Search(program, fails, most_tries)
    size = -1
    while size != len(search.best) and search.tries:
        size = len(search.best)
        search.leave_out()
    search.fewer_tokens()
    search.simplify()
    return search.result


class _Search:
    """The smallest listing so far; `tries` is the remaining budget of runs."""

    def __init__(self, program: Program, fails: Callable[[Program], bool], most_tries: int) -> None:
        self.fails = fails
        self.tries = most_tries
        self.best = without_tokens(program)
        self.result = program
        self.accepts(self.best.with_fewest_tokens())

    def accepts(self, candidate: TokenFreeProgram | None) -> bool:
        """Accepts a candidate that is verified and fails; returns whether it did."""
        if candidate is None or not self.tries:
            return False
        try:
            program = candidate.assembled()
        except IsaError:
            return False
        if not verify(program).ok:
            return False
        self.tries -= 1
        if not self.fails(program):
            return False
        self.best, self.result = candidate, program
        return True

    def leave_out(self) -> None:
        """Removes instructions, large blocks first, from the end; a single one may leave a SYNC."""
        size = max(1, len(self.best) // 2)
        while self.tries:
            end = len(self.best)
            while end > 0:
                self._drop(range(max(0, end - size), end))
                end = min(end - size, len(self.best))
            if size == 1:
                return
            size //= 2

    def _drop(self, part: range) -> None:
        fewer = self.best.without(part)
        if self.accepts(fewer) or self.accepts(fewer.with_fewest_tokens()) or len(part) > 1:
            return
        instruction = self.best.instructions[part[0]]
        if not isinstance(instruction, Sync):
            self.accepts(self.best.with_instruction(part[0], Sync(unit_of(instruction))))

    def fewer_tokens(self) -> None:
        """Removes tokens one at a time."""
        for queue, pairs in list(self.best.edges.items()):
            for edge in pairs:
                self.accepts(self.best.without_edge(queue, edge))

    def simplify(self) -> None:
        """Sets fields to their defaults, or halves them repeatedly."""
        for at in range(len(self.best)):
            for change in _changes(self.best.instructions[at]):
                self.accepts(self.best.with_instruction(at, replace(self.best.instructions[at], **change)))
            for name in _numbers(self.best.instructions[at]):
                while self.accepts(self._halved(at, name)):
                    pass

    def _halved(self, at: int, name: str) -> TokenFreeProgram | None:
        instruction = self.best.instructions[at]
        value = int(getattr(instruction, name))
        if abs(value) < 2:
            return None
        half: dict[str, Any] = {name: int(value / 2)}
        return self.best.with_instruction(at, replace(instruction, **half))


def _changes(instruction: Instruction) -> Iterator[dict[str, Any]]:
    """Changes to defaults: of dependent fields together, then of each field alone."""
    if hasattr(instruction, "emit"):
        yield {"emit": Emit.NONE, "out": 0, **REQUANT}
    if hasattr(instruction, "y_before"):
        yield NO_PADDING
    for name, default in _defaults(instruction).items():
        if getattr(instruction, name) != default:
            yield {name: default}


def _defaults(instruction: Instruction) -> dict[str, Any]:
    known = {field.name: field.default for field in fields(instruction) if field.name not in NO_TOKENS}
    return {name: default for name, default in known.items() if isinstance(default, int)}


def _numbers(instruction: Instruction) -> list[str]:
    return [name for name, default in _defaults(instruction).items() if getattr(instruction, name) != default]


# --- programs without tokens ----------------------------------------------------------------------
# A program with its tokens factored out, as (push, pop) edges between instructions.
#
# Instructions can be removed or changed here without regard to the queues; the verifier judges the
# reassembled program.


NO_TOKENS = dict.fromkeys(("pop_prev", "pop_next", "push_prev", "push_next"), 0)


@dataclass(frozen=True, slots=True)
class TokenFreeProgram:
    """`tensors[k]`: the tensor of instruction k or -1; `edges`: (push, pop) pairs of each queue."""

    program: Program
    instructions: tuple[Instruction, ...]
    tensors: tuple[int, ...]
    edges: Mapping[Queue, tuple[Edge, ...]]

    def __len__(self) -> int:
        return len(self.instructions)

    def without(self, gone: Collection[int]) -> TokenFreeProgram:
        """The program without these instructions and their tokens."""
        kept = [k for k in range(len(self)) if k not in gone]
        number = {k: at for at, k in enumerate(kept)}
        edges = {
            queue: tuple((number[push], number[pop]) for push, pop in pairs if push in number and pop in number)
            for queue, pairs in self.edges.items()
        }
        instructions = tuple(self.instructions[k] for k in kept)
        return TokenFreeProgram(self.program, instructions, tuple(self.tensors[k] for k in kept), edges)

    def without_edge(self, queue: Queue, edge: Edge) -> TokenFreeProgram:
        """The program without one token."""
        return replace(self, edges={**self.edges, queue: tuple(e for e in self.edges[queue] if e != edge)})

    def with_instruction(self, at: int, instruction: Instruction) -> TokenFreeProgram:
        """The program with one instruction replaced; a SYNC drops the tensor."""
        changed = (*self.instructions[:at], instruction, *self.instructions[at + 1 :])
        tensor = -1 if isinstance(instruction, Sync) else self.tensors[at]
        return replace(self, instructions=changed, tensors=(*self.tensors[:at], tensor, *self.tensors[at + 1 :]))

    def with_fewest_tokens(self) -> TokenFreeProgram | None:
        """The program with compiler-assigned tokens; None if an instruction exceeds its buffers."""
        touched = program_accesses(replace(self, edges={}).assembled())
        if touched.findings:
            return None
        steps = [
            UnitOp(unit_of(instruction), tuple(Touch((n, a.buffer), a.where, a.writes) for n, a in accesses))
            for instruction, accesses in zip(self.instructions, touched.accesses, strict=True)
        ]
        places = assign_tokens(steps)
        order = [(Sync(place.unit), -1) if place.op is None else self._at(place.op) for place in places]
        edges = {queue: _edges(places, queue) for queue in QUEUES}
        return TokenFreeProgram(self.program, tuple(i for i, _ in order), tuple(t for _, t in order), edges)

    def _at(self, index: int) -> tuple[Instruction, int]:
        return self.instructions[index], self.tensors[index]

    def assembled(self) -> Program:
        """The reassembled program.

        Raises:
            IsaError: an instruction is not valid.
        """
        bits: list[dict[str, Any]] = [{} for _ in self.instructions]
        for (source, target), pairs in self.edges.items():
            for push, pop in pairs:
                bits[push]["push_next" if target > source else "push_prev"] = 1
                bits[pop]["pop_prev" if target > source else "pop_next"] = 1
        carrying = [replace(i, **b) for i, b in zip(self.instructions, bits, strict=True)]
        whole = self.program
        return Program(
            config=whole.config,
            name=whole.name,
            words=encode(whole.config, carrying),
            tensors=whole.tensors,
            tensor_of=np.array(self.tensors, np.int32),
            source_lines=(),
            source_of=np.full(len(carrying), -1, np.int32),
        )


def without_tokens(program: Program) -> TokenFreeProgram:
    """`program` with its tokens factored out; every push must have its pop."""
    instructions = decode(program.config, program.words)
    places = [IssuedOp(k, unit_of(i), _carried(i, "pop"), _carried(i, "push")) for k, i in enumerate(instructions)]
    bare: dict[str, Any] = NO_TOKENS
    return TokenFreeProgram(
        program,
        tuple(replace(instruction, **bare) for instruction in instructions),
        tuple(program.tensor_of.tolist()),
        {queue: _edges(places, queue) for queue in QUEUES},
    )


def _carried(instruction: Instruction, verb: str) -> frozenset[Unit]:
    unit = unit_of(instruction)
    sides = ((f"{verb}_prev", -1), (f"{verb}_next", 1))
    return frozenset(Unit(unit + distance) for name, distance in sides if getattr(instruction, name))


def _edges(places: Collection[IssuedOp], queue: Queue) -> tuple[Edge, ...]:
    source, target = queue
    pushes = [k for k, place in enumerate(places) if place.unit == source and target in place.pushes]
    pops = [k for k, place in enumerate(places) if place.unit == target and source in place.pops]
    return tuple(zip(pushes, pops, strict=True))

"""A program with its tokens factored out, as (push, pop) edges between instructions.

Instructions can be removed or changed here without regard to the queues; the verifier judges the
reassembled program.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vdla.compiler.codegen.vdla import QUEUES, Edge, IssuedOp, Queue, Touch, UnitOp, assign_tokens
from vdla.hardware.isa import Instruction, Sync, Unit, decode, encode, unit_of
from vdla.hardware.program import Program
from vdla.simulator.verify.accesses import program_accesses

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

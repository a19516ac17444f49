"""Shrinking: reduces a failing program to a small one that is still verified and still fails.

    small = shrink(program, lambda candidate: not compare(candidate))

Instructions are removed first, in halves, quarters and so on; then tokens; then fields become
simpler. `fails` must be deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from vdla.hardware.isa import Emit, Instruction, IsaError, Sync, unit_of
from vdla.hardware.program import Program
from vdla.simulator.verify import verify
from vdla.verification.programs.token_free_program import NO_TOKENS, TokenFreeProgram, without_tokens

MOST_TRIES = 600
REQUANT = {"scl": 0, "scl0": 0, "scl1": 0, "zero_point": 0, "clip_lo": 0, "clip_hi": 0}
NO_PADDING = {"y_before": 0, "y_after": 0, "x_before": 0, "x_after": 0, "pad_value": 0}


def shrink(program: Program, fails: Callable[[Program], bool], most_tries: int = MOST_TRIES) -> Program:
    """A verified program that `fails`: a simpler part of `program`, or `program` itself."""
    search = _Search(program, fails, most_tries)
    size = -1
    while size != len(search.best) and search.left:
        size = len(search.best)
        search.leave_out()
    search.fewer_tokens()
    search.simplify()
    return search.result


class _Search:
    """The smallest listing so far; `left` is the remaining budget of runs."""

    def __init__(self, program: Program, fails: Callable[[Program], bool], most_tries: int) -> None:
        self.fails = fails
        self.left = most_tries
        self.best = without_tokens(program)
        self.result = program
        self.accepts(self.best.with_fewest_tokens())

    def accepts(self, candidate: TokenFreeProgram | None) -> bool:
        """Accepts a candidate that is verified and fails; returns whether it did."""
        if candidate is None or not self.left:
            return False
        try:
            program = candidate.assembled()
        except IsaError:
            return False
        if not verify(program).ok:
            return False
        self.left -= 1
        if not self.fails(program):
            return False
        self.best, self.result = candidate, program
        return True

    def leave_out(self) -> None:
        """Removes instructions, large blocks first, from the end; a single one may leave a SYNC."""
        size = max(1, len(self.best) // 2)
        while self.left:
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

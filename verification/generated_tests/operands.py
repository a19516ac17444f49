# SPDX-License-Identifier: Apache-2.0
"""The operands of a step as its declaration has them: where each lies, and what indexes it.

An oracle: it follows the rules of docs/extensions.md and knows nothing of the plug-in that the
machine was made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from vdla.compiler import ir
from vdla.compiler.extensions import Extension
from vdla.compiler.extensions.state import State
from vdla.hardware.config import Buffer, Config
from vdla.hardware.numerics import pack_elements, unpack_elements

Space = Buffer | str
"""A buffer, or a private state as `unit.name`."""
Contents = dict[Space, ir.Array]
"""The entries of buffers and the rows of states, `[depth, elements]`."""


@dataclass(frozen=True, slots=True)
class StepOperand:
    """An operand: `count` elements of a space for each value of `index`, or all without one; an
    entry or row of the space has `entry` elements.
    """

    name: str
    space: Space
    index: str | None
    count: int
    entry: int
    shape: tuple[int, ...]
    dtype: str
    bits: int  # of an element of the space

    def elements(self, places: Mapping[str, int]) -> range:
        """The elements of the space on which it lies, for the indices of a step."""
        first = places[self.index] * self.count if self.index is not None else 0
        return range(first, first + self.count)

    def entries(self, places: Mapping[str, int]) -> range:
        """The entries or rows on which it lies."""
        where = self.elements(places)
        return range(where.start // self.entry, -(-where.stop // self.entry))

    def value(self, places: Mapping[str, int], contents: Contents) -> ir.Array:
        """Its elements, in the type and shape of the declaration."""
        where = self.elements(places)
        data = contents[self.space].reshape(-1)[where.start : where.stop]
        bits = ir.INTEGER_BITS[self.dtype]
        elements = data if bits == self.bits else unpack_elements(pack_elements(data, self.bits), bits)
        return elements.astype(ir.storage_dtype(self.dtype)).reshape(self.shape)


def step_operands(extension: Extension, config: Config, unit: str) -> list[StepOperand]:
    """The operands in buffers and states that a step reads, without the old value of its entry."""
    output = None if extension.output is None else extension.output.name
    placed = {name: scope for name, scope in extension.scopes.items() if name not in (extension.in_place, output)}
    result = [_in_buffer(extension, config, name, scope) for name, scope in placed.items() if scope in _BITS]
    indices = state_indices(extension, {item.index for item in result})
    return result + [
        state_operand(extension.behaviour, unit, name, scope, indices[scope])
        for name, scope in placed.items()
        if isinstance(scope, State)
    ]


_BITS = {"inp": "inp_bits", "wgt": "wgt_bits", "acc": "acc_bits"}


def _in_buffer(extension: Extension, config: Config, name: str, scope: str | State) -> StepOperand:
    buffer, bits = extension.behaviour.buffers[name], int(getattr(config, _BITS[str(scope)]))
    return StepOperand(
        name=name,
        space=Buffer[str(scope).upper()],
        index="wgt" if scope == "wgt" else "src",
        count=prod(buffer.dims) * ir.INTEGER_BITS[buffer.dtype] // bits,
        entry=_entry_elements(config, Buffer[str(scope).upper()]),
        shape=buffer.dims,
        dtype=buffer.dtype,
        bits=bits,
    )


def _entry_elements(config: Config, buffer: Buffer) -> int:
    lanes = config.block_out if buffer is Buffer.ACC else config.block_in
    return lanes * (config.block_out if buffer is Buffer.WGT else config.batch)


def state_operand(behaviour: ir.Function, unit: str, name: str, state: State, index: str | None) -> StepOperand:
    """An operand of a behaviour that is a row of a state, or all rows."""
    buffer = behaviour.buffers[name]
    return StepOperand(
        name=name,
        space=f"{unit}.{state.name}",
        index=index,
        count=prod(buffer.dims),
        entry=prod(state.row_shape),
        shape=buffer.dims,
        dtype=buffer.dtype,
        bits=ir.INTEGER_BITS[buffer.dtype],
    )


def state_indices(extension: Extension, names: set[str | None]) -> dict[State, str | None]:
    """What indexes the rows of each state: the indices that no buffer uses, in order."""
    free = [index for index in ("acc", "src", "wgt") if index not in names]
    free = free if extension.output is None else free[1:]
    result: dict[State, str | None] = {}
    for state, whole in dict(_states(extension)).items():
        result[state] = free.pop(0) if state.rows > 1 and not whole else None
    return result


def _states(extension: Extension) -> Iterator[tuple[State, bool]]:
    """Each state that a step uses, those that it reads first, and whether it reads all rows."""
    read = [(name, scope) for name, scope in extension.scopes.items() if isinstance(scope, State)]
    for name, state in read:
        yield state, state.is_whole(extension.behaviour.buffers[name].dims)
    yield from ((state, False) for state in extension.updates if state not in [state_read for _, state_read in read])

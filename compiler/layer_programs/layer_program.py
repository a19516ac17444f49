# SPDX-License-Identifier: Apache-2.0
"""A program of a layer, with packing and unpacking as tensor expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.extensions import ExtensionError
from vdla.compiler.ir import INTEGER_BITS
from vdla.compiler.map import gather, is_gather
from vdla.compiler.te import Stage
from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, Instruction, Load, MicroOp, Unit, encode, encode_uops, unit_of
from vdla.hardware.program import UOPS, Program, ProgramTensor

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class LayerProgram:
    """`packing` has each input of the program as elements of a plain tensor of the layer;
    `unpacking` is the plain result as elements of an output of the program.
    """

    program: Program
    packing: tuple[te.Tensor, ...]
    unpacking: te.Tensor

    @property
    def sources(self) -> tuple[te.Tensor, ...]:
        """The plain tensors that the inputs are packed from."""
        return tuple(map(_source, self.packing))

    @property
    def result(self) -> te.Tensor:
        """The output that the plain result is taken from."""
        return _source(self.unpacking)

    @property
    def extra_bytes(self) -> int:
        """Bytes that the host writes beyond those of the plain tensors."""
        pairs = zip(self.packing, self.sources, strict=True)
        return sum(max(0, _nbytes(packed) - _nbytes(source)) for packed, source in pairs)

    @property
    def text(self) -> str:
        """All that it computes and where its elements lie, as text."""
        functions = [
            te.create_function([_source(tensor)], [tensor], tensor.name) for tensor in (*self.packing, self.unpacking)
        ]
        return "\n".join([self.program.hash, *map(str, functions)])

    def pack(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The program's inputs from plain arrays by the names of the plain tensors."""
        return {packed.name: gather(packed, arrays[_source(packed).name]) for packed in self.packing}

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """The plain result from the program's outputs."""
        return gather(self.unpacking, outputs[self.result.name])


def _source(tensor: te.Tensor) -> te.Tensor:
    assert isinstance(tensor.stage, Stage), "checked by ProgramBuilder"
    return tensor.stage.reads[0]


def _nbytes(tensor: te.Tensor) -> int:
    return prod(tensor.shape) * INTEGER_BITS[tensor.dtype] // 8


_UNITS = {unit.label: unit for unit in Unit}


class ProgramBuilder:
    """Collects what a program has; `finished` makes it. Instructions are in the order of `add`."""

    def __init__(self, config: Config, name: str) -> None:
        self.config, self.name = config, name
        self._packing: list[te.Tensor] = []
        self._tensors: list[ProgramTensor] = []
        self._steps: list[tuple[Instruction, str | None]] = []

    # --- tensors

    def input(self, packed: te.Tensor, role: str = "input") -> None:
        """An input with the name, shape and type of `packed`, which is computed from one plain
        tensor of the layer: each element is an element of that tensor, or a constant where a
        condition on indices says so. The role of weights is "weight".
        """
        self._require_gather(packed, "a packed input")
        self._packing.append(packed)
        self._tensor(packed.name, role, packed.shape, packed.dtype)

    def output(self, name: str, shape: Sequence[int]) -> te.Tensor:
        """An output of activations, as the placeholder from which the plain result is computed."""
        self._tensor(name, "output", tuple(shape), self.config.out_dtype)
        return te.placeholder(tuple(shape), self.config.out_dtype, name)

    def scratch(self, name: str, shape: Sequence[int]) -> None:
        """Results that the program stores and loads again."""
        self._tensor(name, "scratch", tuple(shape), self.config.out_dtype)

    def constant(self, name: str, values: Array) -> None:
        """A constant of the program, integers in the dtype of its array."""
        self._tensor(name, "constant", values.shape, values.dtype.name, values.tobytes())

    def resident(self, name: str, values: Array) -> None:
        """A tensor that stays on the device from run to run, and begins with these results."""
        data = values.tobytes() if values.any() else None
        self._tensor(name, "resident", values.shape, self.config.out_dtype, data)

    def part(self, name: str, whole: str, nbytes: int) -> None:
        """A window of `nbytes` of the resident tensor `whole`, at a place chosen for each run."""
        count = nbytes * 8 // self.config.out_bits
        self._tensor(name, "part", (count,), self.config.out_dtype, whole=whole)

    def load_micro_ops(self, micro_ops: Sequence[MicroOp]) -> None:
        """Load a table of micro-ops; a program has one."""
        data = encode_uops(self.config, micro_ops).tobytes()
        self._tensor(UOPS, "constant", (len(micro_ops),), "uop", data)
        self.add([Load(Buffer.UOP, x_size=len(micro_ops))], UOPS)

    def _tensor(
        self, name: str, role: str, shape: tuple[int, ...], dtype: str, data: bytes | None = None, whole: str = ""
    ) -> None:
        if data is None and dtype not in ir.INTEGER_BITS:
            raise ExtensionError(f"program {self.name}: {name} must have integers, got {dtype}")
        nbytes = prod(shape) * ir.INTEGER_BITS[dtype] // 8 if data is None else len(data)
        self._tensors.append(
            ProgramTensor(
                name=name, role=role, shape=shape, dtype=dtype, layout="", nbytes=nbytes, data=data, whole=whole
            )
        )

    # --- instructions

    def add(
        self,
        instructions: Sequence[Instruction],
        tensor: str | None = None,
        *,
        waits: Sequence[str] = (),
        signals: Sequence[str] = (),
    ) -> None:
        """Instructions of one unit; `dram` of transfers is relative to `tensor`.

        The first one pops a token of each unit that it waits for, the last one pushes one to each
        that it signals: load, compute and store, each a neighbour of the instructions' own.
        """
        if not instructions:
            raise ExtensionError(f"program {self.name}: instructions must be at least one, got none")
        steps = list(instructions)
        steps[0] = self._with_tokens(steps[0], waits, "pop")
        steps[-1] = self._with_tokens(steps[-1], signals, "push")
        self._steps += [(step, tensor) for step in steps]

    def _with_tokens(self, step: Instruction, units: Sequence[str], what: str) -> Instruction:
        owner, tokens = unit_of(step), dict[str, Any]()
        for name in units:
            side = {owner - 1: "prev", owner + 1: "next"}.get(_UNITS.get(name, owner))
            if side is None:
                choices = " or ".join(unit.label for unit in Unit if abs(unit - owner) == 1)
                raise ExtensionError(f"program {self.name}: {owner.label} must {what} a token of {choices}, got {name}")
            tokens[f"{what}_{side}"] = 1
        return replace(step, **tokens)

    # --- the whole

    def finished(self, result: te.Tensor) -> LayerProgram:
        """The program, whose plain `result` is computed from an output.

        Raises:
            IsaError: an instruction is invalid. ProgramError: a tensor is.
        """
        self._require_gather(result, "the plain result")
        index: dict[str | None, int] = {tensor.name: at for at, tensor in enumerate(self._tensors)}
        unknown = next((name for _, name in self._steps if name is not None and name not in index), None)
        if unknown is not None:
            choices = ", ".join(tensor.name for tensor in self._tensors)
            raise ExtensionError(f"program {self.name}: tensor must be one of {choices}, got {unknown}")
        program = Program(
            config=self.config,
            name=self.name,
            words=encode(self.config, [step for step, _ in self._steps]),
            tensors=tuple(self._tensors),
            tensor_of=np.array([index.get(name, -1) for _, name in self._steps], np.int32),
            source_lines=(),
            source_of=np.full(len(self._steps), -1, np.int32),
        )
        return LayerProgram(program, tuple(self._packing), result)

    def _require_gather(self, tensor: te.Tensor, what: str) -> None:
        if not isinstance(tensor.stage, Stage) or not is_gather(tensor):
            rule = f"{what} must have elements of one tensor, or choices between them and a constant"
            raise ExtensionError(f"program {self.name}: {rule}, got {tensor.name}")

"""Builds small programs from instructions; the invariant: instructions stay in the order added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.isa import Instruction, Load, MicroOp, Store, encode, encode_uops
from vdla.hardware.program import UOPS, Program, ProgramTensor

ONE = (MicroOp(first=1, last=1),)
"""The kernel of a single micro-op, which starts and finishes a sum."""
BITS = {"int8": 8, "int32": 32, "int64": 64}


class StreamBuilder:
    """A program in the making; `uops` is its table of micro-ops."""

    def __init__(self, config: Config, name: str, uops: Sequence[MicroOp] = ONE) -> None:
        self.config, self.name = config, name
        table = encode_uops(config, list(uops))
        self._tensors = [
            ProgramTensor(
                name=UOPS,
                role="constant",
                shape=table.shape,
                dtype="uint8",
                layout="uops",
                nbytes=table.nbytes,
                data=table.tobytes(),
            )
        ]
        self._instructions: list[Instruction] = []
        self._tensor_of: list[int] = []

    def tensor(self, name: str, role: str, beats: int, dtype: str = "int8") -> str:
        """Declare a tensor of that many beats; returns its name."""
        nbytes = beats * self.config.axi_bytes
        shape = (nbytes * 8 // BITS[dtype],)
        self._tensors.append(
            ProgramTensor(name=name, role=role, shape=shape, dtype=dtype, layout="", nbytes=nbytes, data=None)
        )
        return name

    def add(self, instruction: Instruction, tensor: str | None = None) -> StreamBuilder:
        """Append an instruction; a LOAD or STORE of data names its tensor."""
        assert tensor is None or isinstance(instruction, Load | Store)
        names = [each.name for each in self._tensors]
        self._instructions.append(instruction)
        self._tensor_of.append(-1 if tensor is None else names.index(tensor))
        return self

    def program(self) -> Program:
        """The program so far."""
        count = len(self._instructions)
        return Program(
            config=self.config,
            name=self.name,
            words=encode(self.config, self._instructions),
            tensors=tuple(self._tensors),
            tensor_of=np.array(self._tensor_of, np.int32),
            source_lines=(f"self-test: {self.name}",),
            source_of=np.zeros(count, np.int32),
        )

"""A program of a layer, with packing and unpacking as tensor expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy.typing as npt

from vdla.compiler import te
from vdla.compiler.ir import INTEGER_BITS
from vdla.compiler.map import gather
from vdla.compiler.te import Stage
from vdla.hardware.program import Program

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

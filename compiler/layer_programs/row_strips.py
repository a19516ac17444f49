# SPDX-License-Identifier: Apache-2.0
"""Programs of operators on the rows of matrices, of which a strip is in the buffers at a time.

A strip has some rows of one matrix, all blocks of their elements. It is loaded into one half of the
input buffer while the one before, in the other half, is computed; results lie as elements do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.extensions import LayerError
from vdla.compiler.layer_programs.layer_program import LayerProgram, ProgramBuilder
from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, Instruction, Load, MicroOp, Store


@dataclass(frozen=True, slots=True)
class RowStrip:
    """`count` rows in `blocks` blocks of entries from index `base` on, in the input buffer, the
    accumulator and the output buffer alike: block by block. They are those from `first` on of their
    matrix, in entries.
    """

    base: int
    count: int
    blocks: int
    first: int


@dataclass(frozen=True, slots=True)
class RowPiece:
    """`blocks` blocks from `first` on, with so many elements of the row in each entry."""

    first: int
    blocks: int
    elements: int


def row_pieces(features: int, lanes: int) -> list[RowPiece]:
    """The blocks of rows that instructions treat alike: the full ones, and the last."""
    full, rest = divmod(features, lanes)
    pieces = [RowPiece(0, full, lanes), RowPiece(full, int(rest > 0), rest)]
    return [piece for piece in pieces if piece.blocks > 0]


Steps = Callable[[RowStrip], Sequence[Instruction]]


_WHOLE = (MicroOp(first=1, last=1),)


def row_strips(
    builder: ProgramBuilder, config: Config, data: te.Tensor, result: te.Tensor, most_rows: int, steps: Steps,
    micro_ops: Sequence[MicroOp] = _WHOLE,
) -> LayerProgram:  # fmt: skip
    """The program that computes `result` of `data`, both [matrices, rows, features].

    `builder` has the loads of constants, the last of which signals compute. `steps` are those of a
    strip, of at most `most_rows` rows, with `micro_ops`, by default one that begins and completes a
    result.

    Raises:
        LayerError: entries of the input buffer are not those of the accumulator, or a row does not
            fit.
    """
    if config.block_in != config.block_out:
        rule = "block_in must be block_out, since entries of both buffers hold the same elements"
        raise LayerError(f"{rule}, got {config.block_in} and {config.block_out}")
    return _Strips(builder, config, data, result, most_rows).program(steps, micro_ops)


class _Strips:
    def __init__(
        self, builder: ProgramBuilder, config: Config, data: te.Tensor, result: te.Tensor, most_rows: int
    ) -> None:
        self.builder, self.config, self.data, self.result = builder, config, data, result
        self.matrices, rows, self.features = data.shape
        self.rows = -(-rows // config.batch)  # entries have a row of each of the batch
        self.blocks = -(-self.features // config.block_out)
        self.room = min(config.inp_depth, config.acc_depth, config.out_depth) // 2
        most = min(self.room // self.blocks, most_rows, self.rows)
        if most < 1:
            raise LayerError(f"a row must fit half of a buffer, {self.room} entries, got {self.blocks}")
        size = -(-self.rows // -(-self.rows // most))
        self.strips = [(m, first) for m in range(self.matrices) for first in range(0, self.rows, size)]
        self.size = size

    def program(self, steps: Steps, micro_ops: Sequence[MicroOp]) -> LayerProgram:
        """Each strip is loaded while the one before is computed."""
        self.builder.load_micro_ops(micro_ops)
        plain = self._tensors()
        for number in range(len(self.strips) + 1):
            if number < len(self.strips):
                self._load(number)
            if number:
                self._compute(number - 1, steps)
        return self.builder.finished(plain)

    def _tensors(self) -> te.Tensor:
        """Elements and results in blocks, as templates have them."""
        batch, lanes, data = self.config.batch, self.config.block_out, self.data

        def element(m: te.Value, c: te.Value, r: te.Value, b: te.Value, o: te.Value) -> te.Value:
            row, feature = r * batch + b, c * lanes + o
            inside = te.all_of(row < data.shape[1], feature < self.features)
            return te.select(inside, data[m, row, feature], 0)

        shape = self.matrices, self.blocks, self.rows, batch, lanes
        self.builder.input(te.compute(shape, element, "elements"))
        results = self.builder.output("results", shape)

        def plain(m: te.Value, r: te.Value, c: te.Value) -> te.Value:
            return results[m, c // lanes, r // batch, r % batch, c % lanes]

        return te.compute(self.result.shape, plain, "plain")

    def _strip(self, number: int) -> tuple[RowStrip, int, int]:
        """A strip, the entry at which it begins in memory, and the entries of a block there."""
        matrix, first = self.strips[number]
        strip = RowStrip(number % 2 * self.room, min(self.size, self.rows - first), self.blocks, first)
        return strip, matrix * self.blocks * self.rows + first, self.rows

    def _load(self, number: int) -> None:
        strip, first, stride = self._strip(number)
        beats = self.config.entry_bytes[Buffer.INP] // self.config.axi_bytes
        rows = {"y_size": strip.blocks, "y_stride": stride * beats, "x_size": strip.count}
        load = Load(Buffer.INP, sram=strip.base, dram=first * beats, **rows)
        waits = ["compute"] if number >= 2 else []  # the strip before the last had this half
        self.builder.add([load], "elements", waits=waits, signals=["compute"])

    def _compute(self, number: int, steps: Steps) -> None:
        strip, first, stride = self._strip(number)
        beats = self.config.entry_bytes[Buffer.OUT] // self.config.axi_bytes
        before, later = ["store"] * (number >= 2), number + 2 < len(self.strips)
        self.builder.add(steps(strip), waits=["load", *before], signals=[*(["load"] * later), "store"])
        rows = {"y_size": strip.blocks, "y_stride": stride * beats, "x_size": strip.count}
        store = Store(sram=strip.base, dram=first * beats, **rows)
        self.builder.add([store], "results", waits=["compute"], signals=["compute"] * later)

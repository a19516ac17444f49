# SPDX-License-Identifier: Apache-2.0
"""Programs of dense layers with weights of four bits in groups, for the plug-in `int4_group`.

A tile is some blocks of outputs with all groups of inputs, or some groups of one block. Its numbers
and factors fill a half of the weight buffer while the other half is computed with. Sums of groups
are entries of the accumulator, before the totals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vdla.compiler import te
from vdla.compiler.extensions import LayerError
from vdla.compiler.layer_programs.layer_program import LayerProgram, ProgramBuilder
from vdla.compiler.operators.definitions import Definition
from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, Emit, Instruction, Load, MicroOp, Store, isa_of

_SIZES, _SMALL = (64, 128, 512), (16, 4, 1)
"""Groups of a tile that are tried, and those where buffers have no room for them."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Blocks of outputs from `block` on, and groups of inputs from `group` on."""

    block: int
    blocks: int
    group: int
    groups: int


class Int4Dense:
    """The program of a layer with at most `size` groups in a tile, or those of one block."""

    GROUP = 32
    """Inputs that share a factor."""

    def __init__(
        self, layer: Definition, config: Config, size: int, packing: tuple[te.Tensor, ...] | None = None
    ) -> None:
        self.layer, self.config = layer, config
        self.packing = packing or packing_of(layer, config)
        rows, outputs = layer.output.shape
        self.groups = {tensor.name: tensor for tensor in layer.inputs}["factors"].shape[1]
        self.steps = self.GROUP // (2 * config.block_in)  # of a group
        self.rows, self.blocks = -(-rows // config.batch), -(-outputs // config.block_out)
        self.part = min(self.groups, size)  # groups of a tile
        self.many = max(1, min(size // self.groups, self.blocks))  # blocks of a tile
        self.entries = self.many * self.part
        self.half = self.entries * self.steps + -(-self.entries // config.block_in) + 1
        self._require_room()
        self.sums: Any = self._instruction("int4_group")
        self.scale: Any = self._instruction("int4_group_scale")
        self.builder = ProgramBuilder(config, "int4_dense")

    def _instruction(self, name: str) -> Any:  # noqa: ANN401  a class with fields of its own
        known = isa_of(self.config).format_named(name)
        assert known is not None, "the program is offered on machines that have it"
        return known.cls

    @staticmethod
    def sizes(layer: Definition, config: Config) -> list[LayerProgram]:
        """Programs with tiles of several sizes.

        Raises:
            LayerError: there is none; the message is the reason.
        """
        made: dict[tuple[int, int], Int4Dense] = {}
        packing = packing_of(layer, config)
        reason = None
        for size in (*_SIZES, *_SMALL):
            if made and size in _SMALL:
                break
            try:
                program = Int4Dense(layer, config, size, packing)
            except LayerError as error:
                reason = error
                continue
            made.setdefault((program.many, program.part), program)
        if not made:
            assert reason is not None, "there are sizes"
            raise reason
        return [program.program() for program in made.values()]

    def _require_room(self) -> None:
        config = self.config
        wanted = {
            "inp": (2 * self.rows * self.groups * self.steps, config.inp_depth),
            "wgt": (2 * self.half, config.wgt_depth),
            "acc": (self.entries + self.rows * self.many, config.acc_depth),
            "out": (2 * self.rows * self.many, config.out_depth),
            "scl": (2 * self.many, config.scl_depth),
            "uop": (self.steps + self.groups, config.uop_depth),
        }
        for name, (entries, room) in wanted.items():
            if entries > room:
                raise LayerError(f"{name} must have room for {entries} entries, got {room}")

    def program(self) -> LayerProgram:
        """Each tile is loaded while the one before is computed."""
        result, tiles = self._tensors(), list(self._tiles())
        self.builder.load_micro_ops(list(self._micro_ops()))
        count = 2 * self.rows * self.groups * self.steps
        self.builder.add([Load(Buffer.INP, x_size=count)], "inputs")
        for number in range(len(tiles) + 1):
            if number < len(tiles):
                self._load(number, tiles)
            if number > 0:
                self._compute(number - 1, tiles)
        return self.builder.finished(result)

    def _tiles(self) -> Iterator[Tile]:
        for block in range(0, self.blocks, self.many):
            for group in range(0, self.groups, self.part):
                yield Tile(block, min(self.many, self.blocks - block), group, min(self.part, self.groups - group))

    def _micro_ops(self) -> Iterator[MicroOp]:
        """The steps of a group, then the groups of a block, whose last one completes its total."""
        for step in range(self.steps):
            yield MicroOp(src=step, wgt=step, first=int(step == 0))
        for group in range(self.groups):
            at, last = group % self.part, group == self.groups - 1
            yield MicroOp(src=at, wgt=at, first=int(group == 0), last=int(last))

    # --- tensors

    def _tensors(self) -> te.Tensor:
        """The plain result; the inputs of the program are those of programs of all sizes."""
        lanes, batch = self.config.block_out, self.config.batch
        self.builder.input(self.packing[0])
        for packed in self.packing[1:]:
            self.builder.input(packed, "weight")
        results = self.builder.output("results", (self.rows, self.blocks, batch, lanes))
        return te.compute(
            self.layer.output.shape, lambda m, n: results[m // batch, n // lanes, m % batch, n % lanes], "plain"
        )

    def _beats(self, buffer: Buffer) -> int:
        return self.config.entry_bytes[buffer] // self.config.axi_bytes

    # --- instructions

    def _load(self, number: int, tiles: list[Tile]) -> None:
        tile, base, beats = tiles[number], number % 2 * self.half, self._beats(Buffer.WGT)
        first = tile.block * self.groups + tile.group
        count = tile.blocks * tile.groups
        waits = ["compute"] if number >= 2 else []  # the tile before the last had this half
        numbers = {"sram": base, "dram": first * self.steps * beats, "x_size": count * self.steps}
        self.builder.add([Load(Buffer.WGT, **numbers)], "weights", waits=waits)
        begin, end = first // self.config.block_in, -(-(first + count) // self.config.block_in)
        factors = {"sram": base + self.entries * self.steps, "dram": begin * beats, "x_size": end - begin}
        signals = [] if self._completes(tile) else ["compute"]
        self.builder.add([Load(Buffer.WGT, **factors)], "group_factors", signals=signals)
        if self._completes(tile):
            place = self._completed(number, tiles) % 2 * self.many
            scales = {"sram": place, "dram": tile.block * self._beats(Buffer.SCL), "x_size": tile.blocks}
            self.builder.add([Load(Buffer.SCL, **scales)], "scales", signals=["compute"])

    def _completes(self, tile: Tile) -> bool:
        """Whether a tile has the last groups of its blocks."""
        return bool(tile.group + tile.groups == self.groups)

    def _completed(self, number: int, tiles: list[Tile]) -> int:
        """How many of the tiles before complete their blocks."""
        return int(number // (len(tiles) // -(-self.blocks // self.many)))

    def _compute(self, number: int, tiles: list[Tile]) -> None:
        tile, done = tiles[number], self._completed(number, tiles)
        completes, later = self._completes(tile), number + 2 < len(tiles)
        place = done % 2
        steps = [step for row in range(self.rows) for step in self._row(tile, number % 2, row, place)]
        waits = ["load", *(["store"] if completes and done >= 2 else [])]
        signals = [*(["load"] if later else []), *(["store"] if completes else [])]
        self.builder.add(steps, waits=waits, signals=signals)
        if not completes:
            return
        beats, last = self._beats(Buffer.OUT), -(-self.blocks // self.many) - 1
        rows = {"y_size": self.rows, "y_stride": self.blocks * beats, "x_size": tile.blocks}
        where = {"sram": place * self.rows * self.many, "dram": tile.block * beats}
        signals = ["compute"] if done + 2 <= last else []
        self.builder.add([Store(**where, **rows)], "results", waits=["compute"], signals=signals)

    def _row(self, tile: Tile, half: int, row: int, place: int) -> Iterator[Instruction]:
        """The sums of the groups of a tile for some rows, and their totals."""
        base, groups, steps = half * self.half, tile.groups, self.steps
        first = tile.block * self.groups + tile.group
        loops: dict[str, Any] = {"init": 1, "loop0": tile.blocks, "loop1": groups, "uop_begin": 0, "uop_end": steps}
        yield self.sums(
            **loops, acc0=groups, acc1=1, src=(row * self.groups + tile.group) * steps, src1=steps, wgt=base,
            wgt0=groups * steps, wgt1=steps,
        )  # fmt: skip
        factors = (base + self.entries * steps) * self.config.block_in + first % self.config.block_in
        begin = steps + tile.group
        emit: dict[str, Any] = {"emit": Emit.REQUANT, "clip_lo": -128, "clip_hi": 127}
        emit |= {"out": place * self.rows * self.many + row * tile.blocks, "scl": place * self.many, "scl0": 1}
        yield self.scale(
            init=1, loop0=tile.blocks, uop_begin=begin, uop_end=begin + groups, acc=self.entries + row * self.many,
            acc0=1, src0=groups, wgt=factors, wgt0=groups, **emit,
        )  # fmt: skip


def packing_of(layer: Definition, config: Config) -> tuple[te.Tensor, ...]:
    """The inputs of programs: activations, numbers, factors and scales, in blocks of a machine."""
    given = {tensor.name: tensor for tensor in layer.inputs}
    batch, lanes, terms = config.batch, config.block_out, 2 * config.block_in
    data, numbers, factors, scale = (given[name] for name in ("data", "numbers", "factors", "scale"))
    (rows, features), (outputs, groups) = data.shape, factors.shape
    blocks, steps = -(-outputs // lanes), Int4Dense.GROUP // terms
    vectors = -(-blocks * groups // config.block_in)

    def where(inside: te.Value, is_partial: bool, value: te.Value) -> te.Value:
        """A value, or 0 outside where there is an outside."""
        return te.select(inside, value, te.const(0, value.dtype)) if is_partial else value

    def of_inputs(m: te.Value, k: te.Value, b: te.Value, i: te.Value) -> te.Value:
        inside = (m * batch + b < rows) & (k * config.block_in + i < features)
        partial = bool(rows % batch or features % Int4Dense.GROUP)
        return where(inside, partial, data[m * batch + b, k * config.block_in + i])

    def of_numbers(n: te.Value, g: te.Value, s: te.Value, o: te.Value, i: te.Value) -> te.Value:
        return where(n * lanes + o < outputs, outputs % lanes > 0, numbers[n * lanes + o, g, s * terms + i])

    def of_factors(v: te.Value, k: te.Value, o: te.Value) -> te.Value:
        at = v * config.block_in + k
        inside = at // groups * lanes + o < outputs
        partial = bool(outputs % lanes or blocks * groups % config.block_in)
        return where(inside, partial, factors[at // groups * lanes + o, at % groups])

    def of_scales(n: te.Value, o: te.Value) -> te.Value:
        return where(n * lanes + o < outputs, outputs % lanes > 0, scale[n * lanes + o])

    return (
        te.compute((-(-rows // batch), 2 * groups * steps, batch, config.block_in), of_inputs, "inputs"),
        te.compute((blocks, groups, steps, lanes, terms), of_numbers, "weights"),
        te.compute((vectors, config.block_in, lanes), of_factors, "group_factors"),
        te.compute((blocks, lanes), of_scales, "scales"),
    )

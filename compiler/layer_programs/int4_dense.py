# SPDX-License-Identifier: Apache-2.0
"""Programs of dense layers with weights of four bits in groups, for the plug-in `int4_group`.

A tile is some blocks of outputs with all groups of inputs, or some groups of one block. Its numbers
and factors fill a slot of the weight buffer while those in the other slots are computed with. The
last tiles are smaller and smaller, as nothing is loaded while the last one is computed.
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
_LEAST = 16
"""Groups of the smallest tile at the end."""
_SLOTS = 4


@dataclass(frozen=True, slots=True)
class Tile:
    """Blocks of outputs from `block` on, and groups of inputs from `group` on.

    `done` tiles before it complete their blocks; whether this one does is `completes`.
    """

    block: int
    blocks: int
    group: int
    groups: int
    done: int
    completes: bool


class Int4Dense:
    """The program of a layer with at most `size` groups in a tile, or those of one block."""

    GROUP = 32
    """Inputs that share a factor."""
    ROWS = 32
    """Entries of factors that the state of the plug-in has."""

    def __init__(
        self, layer: Definition, config: Config, size: int, packing: tuple[te.Tensor, ...] | None = None
    ) -> None:
        self.layer, self.config = layer, config
        self.packing = packing or packing_of(layer, config)
        rows, outputs = layer.output.shape
        self.groups: int = {tensor.name: tensor for tensor in layer.inputs}["factors"].shape[1]
        self.steps = self.GROUP // (2 * config.block_in)  # of a group
        self.rows: int = -(-rows // config.batch)
        self.blocks: int = -(-outputs // config.block_out)
        size = min(size, (self.ROWS - 1) * config.block_in + 1)
        self.part = min(self.groups, size)  # groups of a tile
        self.many = max(1, min(size // self.groups, self.blocks))  # blocks of a tile
        self.entries = self.many * self.part
        self.slot = self.entries * self.steps + -(-self.entries // config.block_in) + 1
        self.slots = self._slots()
        self.sums: Any = self._instruction("int4_group")
        self.clear: Any = self._instruction("int4_group_clear")
        self.factors: Any = self._instruction("int4_group_factors")
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

    def _slots(self) -> int:
        """The slots of weights, scales and results; LayerError without room for two."""
        config = self.config
        once = {
            "inp": (2 * self.rows * self.groups * self.steps, config.inp_depth),
            "acc": (self.rows * self.many, config.acc_depth),
            "uop": (self.groups * self.steps, config.uop_depth),
        }
        by_slot = {
            "wgt": (self.slot, config.wgt_depth),
            "out": (self.rows * self.many, config.out_depth),
            "scl": (self.many, config.scl_depth),
        }
        wanted = once | {name: (2 * entries, room) for name, (entries, room) in by_slot.items()}
        for name, (entries, room) in wanted.items():
            if entries > room:
                raise LayerError(f"{name} must have room for {entries} entries, got {room}")
        return int(min(_SLOTS, *(room // entries for entries, room in by_slot.values())))

    def program(self) -> LayerProgram:
        """Tiles are loaded while those before are computed."""
        result, tiles = self._tensors(), list(self._tiles())
        self.builder.load_micro_ops(list(self._micro_ops()))
        self.builder.add([self.clear(loop0=self.ROWS, acc0=1, uop_end=1)])
        count = 2 * self.rows * self.groups * self.steps
        self.builder.add([Load(Buffer.INP, x_size=count)], "inputs")
        ahead = self.slots - 1
        for number in range(len(tiles) + ahead):
            if number < len(tiles):
                self._load(number, tiles[number])
            if number >= ahead:
                self._compute(number - ahead, tiles)
        return self.builder.finished(result)

    def _tiles(self) -> Iterator[Tile]:
        block = done = 0
        while block < self.blocks:
            blocks = self._next_blocks(self.blocks - block)
            for group in range(0, self.groups, self.part):
                groups = min(self.part, self.groups - group)
                yield Tile(block, blocks, group, groups, done, group + groups == self.groups)
            block, done = block + blocks, done + 1

    def _next_blocks(self, rest: int) -> int:
        """Half of those left at the end, as a tile is loaded for longer than it is computed."""
        least = -(-_LEAST // self.groups)
        return int(min(self.many, rest, max(least, -(-rest // 2))))

    def _micro_ops(self) -> Iterator[MicroOp]:
        """The steps of the groups of a block, whose last one completes its total."""
        steps, count = self.part * self.steps, self.groups * self.steps
        for step in range(count):
            yield MicroOp(src=step % steps, wgt=step % steps, first=int(step == 0), last=int(step == count - 1))

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

    def _first(self, tile: Tile) -> int:
        """The first group of a tile, among those of all blocks."""
        return tile.block * self.groups + tile.group

    def _rows_of_factors(self, tile: Tile) -> tuple[int, int]:
        """The first entry of the factors of a tile, and the one behind the last."""
        first, size = self._first(tile), self.config.block_in
        return first // size, -(-(first + tile.blocks * tile.groups) // size)

    def _load(self, number: int, tile: Tile) -> None:
        base, beats = number % self.slots * self.slot, self._beats(Buffer.WGT)
        waits = ["compute"] if number >= self.slots else []  # the last tile that had this slot
        count = tile.blocks * tile.groups * self.steps
        numbers = {"sram": base, "dram": self._first(tile) * self.steps * beats, "x_size": count}
        self.builder.add([Load(Buffer.WGT, **numbers)], "weights", waits=waits)
        begin, end = self._rows_of_factors(tile)
        factors = {"sram": base + self.entries * self.steps, "dram": begin * beats, "x_size": end - begin}
        signals = [] if tile.completes else ["compute"]
        self.builder.add([Load(Buffer.WGT, **factors)], "group_factors", signals=signals)
        if tile.completes:
            place = tile.done % self.slots * self.many
            scales = {"sram": place, "dram": tile.block * self._beats(Buffer.SCL), "x_size": tile.blocks}
            self.builder.add([Load(Buffer.SCL, **scales)], "scales", signals=["compute"])

    def _compute(self, number: int, tiles: list[Tile]) -> None:
        tile, place = tiles[number], tiles[number].done % self.slots
        completes, later = tile.completes, number + self.slots < len(tiles)
        steps = [step for row in range(self.rows) for step in self._row(tile, number % self.slots, row, place)]
        waits = ["load", *(["store"] if completes and tile.done >= self.slots else [])]
        signals = [*(["load"] if later else []), *(["store"] if completes else [])]
        self.builder.add(steps, waits=waits, signals=signals)
        if not completes:
            return
        beats = self._beats(Buffer.OUT)
        rows = {"y_size": self.rows, "y_stride": self.blocks * beats, "x_size": tile.blocks}
        where = {"sram": place * self.rows * self.many, "dram": tile.block * beats}
        signals = ["compute"] if tile.done + self.slots <= tiles[-1].done else []
        self.builder.add([Store(**where, **rows)], "results", waits=["compute"], signals=signals)

    def _row(self, tile: Tile, slot: int, row: int, place: int) -> Iterator[Instruction]:
        """The factors of the groups of a tile, then its sums for some rows."""
        base, steps = slot * self.slot, self.steps
        begin, end = self._rows_of_factors(tile)
        offset = self._first(tile) % self.config.block_in
        factors = {"loop0": end - begin, "acc0": 1, "wgt": base + self.entries * steps, "wgt0": 1, "uop_end": 1}
        yield self.factors(offset=offset, **factors)
        emit: dict[str, Any] = {"emit": Emit.REQUANT, "clip_lo": -128, "clip_hi": 127}
        emit |= {"out": place * self.rows * self.many + row * tile.blocks, "scl": place * self.many, "scl0": 1}
        loops = {"loop0": tile.blocks, "uop_begin": tile.group * steps, "uop_end": (tile.group + tile.groups) * steps}
        yield self.sums(
            init=1, **loops, acc=row * self.many, acc0=1, src=(row * self.groups + tile.group) * steps, wgt=base,
            wgt0=tile.groups * steps, **emit,
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

    def of_factors(v: te.Value, o: te.Value, k: te.Value) -> te.Value:
        at = v * config.block_in + k
        inside = at // groups * lanes + o < outputs
        partial = bool(outputs % lanes or blocks * groups % config.block_in)
        return where(inside, partial, factors[at // groups * lanes + o, at % groups])

    def of_scales(n: te.Value, o: te.Value) -> te.Value:
        return where(n * lanes + o < outputs, outputs % lanes > 0, scale[n * lanes + o])

    return (
        te.compute((-(-rows // batch), 2 * groups * steps, batch, config.block_in), of_inputs, "inputs"),
        te.compute((blocks, groups, steps, lanes, terms), of_numbers, "weights"),
        te.compute((vectors, lanes, config.block_in), of_factors, "group_factors"),
        te.compute((blocks, lanes), of_scales, "scales"),
    )

# SPDX-License-Identifier: Apache-2.0
"""A program of the product of an image and a factor for each channel, as squeeze-and-excite has it.

A factor is an entry of the accumulator that all pixels of its block of channels read, so that a
pixel takes three steps of the vector unit: it is copied, loses its zero point, and is multiplied.
Two images of one pixel each, as a decoder's token has them, are such a product.
"""

from __future__ import annotations

from math import prod
from typing import Any

from vdla.compiler import te
from vdla.compiler.extensions import LayerError
from vdla.compiler.ir import limits
from vdla.compiler.layer_programs.layer_program import LayerProgram, ProgramBuilder
from vdla.compiler.operators.definitions import Definition
from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, Emit, Load, MicroOp, Operand, Source, Store, Vector, VectorOp

_SHARE = 4
"""The part of a buffer that a strip of pixels fills at most: two are there at once, and others."""


def channel_product(layer: Definition, config: Config) -> LayerProgram:
    """The program of a `scaling` by channel of images, or of images of one pixel.

    Raises:
        LayerError: the layer is another one, its factors do not fit, or entries of the input buffer
            are not those of the accumulator.
    """
    if config.block_in != config.block_out:
        rule = "block_in must be block_out, since entries of both buffers hold the same channels"
        raise LayerError(f"{rule}, got {config.block_in} and {config.block_out}")
    types = {"dtype": config.inp_dtype, "raw": False}
    one_pixel = layer.name == "scaling" and prod(layer.inputs[0].shape[2:]) == 1
    by_channel = {} if one_pixel else {"by_channel": True}
    layer.require("scaling", **by_channel, batch=set(range(1, config.batch + 1)), **types)
    return _ChannelProduct(layer, config).program()


class _ChannelProduct:
    """Strips are pixels of a block of channels, or all pixels of several blocks."""

    def __init__(self, layer: Definition, config: Config) -> None:
        self.layer, self.config = layer, config
        data = layer.inputs[0].shape
        self.pixels, self.blocks = prod(data[2:]), -(-data[1] // config.block_out)
        self.zeros = layer.options["zero_points"]
        self.zeros = self.zeros if isinstance(self.zeros, tuple) else (self.zeros, self.zeros)
        self.entries = min(config.inp_depth, config.acc_depth, config.out_depth)
        room = max(1, self.entries // _SHARE)
        many = max(1, min(room // self.pixels, self.blocks, config.scl_depth // _SHARE))
        parts = -(-self.pixels // room)
        size = -(-self.pixels // parts)
        self.strips = [
            (block, min(many, self.blocks - block), first, min(size, self.pixels - first))
            for block in range(0, self.blocks, many)
            for first in range(0, self.pixels, size)
        ]
        self.room, self.scales = many * size, many
        self.factors = self.entries - self.blocks  # in the other half of the accumulator than strips
        if self.blocks > self.entries - 2 * self.room:
            raise LayerError(f"factors must fit beside two strips of {self.room} entries, got {self.blocks} blocks")
        self.builder = ProgramBuilder(config, "channel_product")

    def program(self) -> LayerProgram:
        """Each strip is loaded while the one before is computed."""
        builder, result = self.builder, self._tensors()
        builder.load_micro_ops([MicroOp(first=1, last=1)])
        builder.add([Load(Buffer.INP, sram=self.factors, x_size=self.blocks)], "factors", signals=["compute"])
        steps: dict[str, Any] = {"uop_begin": 0, "uop_end": 1, "loop0": self.blocks, "acc": self.factors, "acc0": 1}
        copy = Vector(VectorOp.MOV, source=Source.INP, src=self.factors, src0=1, init=1, **steps)
        builder.add([copy, *self._centred(1, steps)], waits=["load"])
        for number in range(len(self.strips) + 1):
            if number < len(self.strips):
                self._load(number)
            if number > 0:
                self._compute(number - 1)
        return builder.finished(result)

    def _tensors(self) -> te.Tensor:
        """Pixels, factors and results in blocks of channels, and the scales of a block."""
        (data, other, scale), lanes, batch = self.layer.inputs, self.config.block_out, self.config.batch
        images, channels, *size = data.shape

        def packed(tensor: te.Tensor, fill: int, name: str) -> te.Tensor:
            def element(b: te.Value, y: te.Value, x: te.Value, n: te.Value, o: te.Value) -> te.Value:
                inside = b * lanes + o < channels
                inside = inside if images == batch else te.all_of(n < images, inside)
                return te.select(inside, tensor[n, b * lanes + o, y, x], fill)

            return te.compute((self.blocks, *tensor.shape[2:], batch, lanes), element, name)

        def of_block(b: te.Value, o: te.Value) -> te.Value:
            return te.select(b * lanes + o < channels, scale[b * lanes + o], 0)

        self.builder.input(packed(data, self.zeros[0], "pixels"))
        self.builder.input(packed(other, self.zeros[1], "factors"))
        self.builder.input(te.compute((self.blocks, lanes), of_block, "scales"), "weight")
        results = self.builder.output("results", (self.blocks, *size, batch, lanes))

        def plain(n: te.Value, c: te.Value, y: te.Value, x: te.Value) -> te.Value:
            return results[c // lanes, y, x, n, c % lanes]

        return te.compute(self.layer.output.shape, plain, "plain")

    def _beats(self, buffer: Buffer) -> int:
        return self.config.entry_bytes[buffer] // self.config.axi_bytes

    def _load(self, number: int) -> None:
        block, many, first, count = self.strips[number]
        dram = block * self._beats(Buffer.SCL)
        waits = ["compute"] if number >= 2 else []  # the strip before the last had this half
        scales = Load(Buffer.SCL, sram=number % 2 * self.scales, dram=dram, x_size=many)
        self.builder.add([scales], "scales", waits=waits)
        plane = self.pixels * self._beats(Buffer.INP)
        rows = {"y_size": many, "y_stride": plane, "x_size": count}
        dram = block * plane + first * self._beats(Buffer.INP)
        load = Load(Buffer.INP, sram=number % 2 * self.room, dram=dram, **rows)
        self.builder.add([load], "pixels", signals=["compute"])

    def _compute(self, number: int) -> None:
        block, many, first, count = self.strips[number]
        base = number % 2 * self.room
        steps: dict[str, Any] = {
            "uop_begin": 0,
            "uop_end": 1,
            "loop0": many,
            "loop1": count,
            "acc": base,
            "acc0": count,
            "acc1": 1,
        }
        copy = Vector(VectorOp.MOV, source=Source.INP, src=base, src0=count, src1=1, init=1, **steps)
        least, most = limits(self.config.inp_dtype)
        sent: dict[str, Any] = {"emit": Emit.REQUANT, "out": base, "scl": number % 2 * self.scales, "scl0": 1}
        sent |= {"clip_lo": least, "clip_hi": most}
        product = Vector(VectorOp.MUL, src=self.factors + block, src0=1, **steps, **sent)
        before, later = ["store"] * (number >= 2), ["load"] * (number + 2 < len(self.strips))
        computed = [copy, *self._centred(0, steps), product]
        self.builder.add(computed, waits=["load", *before], signals=[*later, "store"])
        plane = self.pixels * self._beats(Buffer.OUT)
        rows = {"y_size": many, "y_stride": plane, "x_size": count}
        store = Store(sram=base, dram=block * plane + first * self._beats(Buffer.OUT), **rows)
        self.builder.add([store], "results", waits=["compute"], signals=["compute"] * bool(later))

    def _centred(self, operand: int, steps: dict[str, Any]) -> list[Vector]:
        """What subtracts the zero point of an operand."""
        zero = self.zeros[operand]
        return [Vector(VectorOp.SUB, operand=Operand.IMM, imm=zero, **steps)] if zero else []

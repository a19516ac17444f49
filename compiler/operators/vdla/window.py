"""A window that slides over each channel by itself: what depthwise convolution, pooling and addition share.

Activations are packed in blocks of block_out, the width of the vector unit. They are read from the input buffer where
its entries divide a vector, else through the accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics import dma
from vdla.compiler.operators.vdla.operator import Array
from vdla.compiler.operators.vdla.packing import blocks, check_array, check_output, pack_activations, unpack_activations
from vdla.compiler.operators.vdla.sliding import Padding, Sliding, check_extents
from vdla.compiler.operators.vdla.tiling import Problem
from vdla.compiler.tensorize.intrinsic import Intrinsic
from vdla.hardware.config import Buffer
from vdla.hardware.isa import Source

SCALE_LAYOUT = "C/block_out, block_out: bias, multiplier, shift"


@dataclass(frozen=True)
class Window(Sliding):
    """A sliding window over activations, channel by channel; `fill` is what padding holds."""

    fill: int = 0

    def check_channels(self) -> None:
        """Refuse a number of channels that is none."""
        check_extents(self.name, [("channels", self.in_channels)])

    @property
    def source(self) -> Source:
        """Where the vector unit reads activations."""
        return Source.INP if self.config.block_out % self.config.block_in == 0 else Source.ACC

    @property
    def shape(self) -> tuple[int, ...]:
        """Packed activations in DRAM."""
        batch, block = self.config.batch, self.config.block_out
        return blocks(self.batch, batch), blocks(self.in_channels, block), self.height, self.width, batch, block

    @property
    def results_shape(self) -> tuple[int, ...]:
        """Packed results."""
        return (*self.shape[:2], *self.out_size, *self.shape[4:])

    @property
    def steps(self) -> int:
        """Values of the windows of all results, padding of channels not counted."""
        return self.batch * self.in_channels * self.out_size[0] * self.out_size[1] * self.taps

    def problem(self, weights: int = 0, inputs: int = 1, lanes: int = 1) -> Problem:
        """What the tile search sees."""
        through_acc = self.source is Source.ACC
        return Problem(
            self.shape[0], self.shape[1], 1, *self.out_size, self.taps, self.stride[0], self.reach[0], self.stride[1],
            self.reach[1], weights, raw=self.results.raw, separate=True, inputs=inputs,
            unit=1 if through_acc else self.config.block_out // self.config.block_in, through_acc=through_acc,
            lanes=lanes,
        )  # fmt: skip

    def load(self) -> Intrinsic:
        """The DMA that brings activations to where the vector unit reads them."""
        if self.source is Source.ACC:
            return dma.load(self.config, Buffer.ACC, widen=True)
        return dma.load(self.config, Buffer.INP, (self.config.batch, self.config.block_out))

    def data(self, name: str = "data") -> te.Tensor:
        """The input."""
        return te.placeholder(self.shape, self.config.inp_dtype, name)

    def padded(self, data: te.Tensor, stage: str = "padded") -> te.Tensor:
        """The rows and columns that the window reads, padding included; widened where they go to the accumulator."""
        dtype = "int32" if self.source is Source.ACC else self.config.inp_dtype
        return Padding(self.padding, self.problem().window_size, self.fill).stage(data, dtype, stage)

    def value(self, padded: te.Tensor, ky: te.ReduceAxis, kx: te.ReduceAxis, *i: te.Value) -> te.Value:
        """What the result at [n, c, y, x, b, o] sees at a position of the kernel."""
        n, c, y, x, b, o = i
        (sh, sw), (dh, dw) = self.stride, self.dilation
        return te.cast("int32", padded[n, c, y * sh + ky * dh, x * sw + kx * dw, b, o])

    @property
    def layouts(self) -> dict[str, str]:
        """Dimensions of the program's tensors."""
        activations = "N/batch, C/block_out, H, W, batch, block_out"
        return {"data": activations, "output": activations, "scale": SCALE_LAYOUT}

    def pack_data(self, name: str, data: Array) -> Array:
        """NCHW activations in blocks of block_out."""
        shape = (self.batch, self.in_channels, self.height, self.width)
        return pack_activations(
            check_array(name, data, shape, self.config.inp_dtype), self.config.batch, self.config.block_out
        )

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """NCHW results from the program's outputs."""
        return unpack_activations(check_output(outputs, 6), (self.batch, self.out_channels, *self.out_size))

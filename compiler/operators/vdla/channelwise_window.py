"""Operators on the vector unit, channel by channel: depthwise convolution, pooling, addition.

Activations are packed in blocks of block_out, the width of the vector unit. They are read from the
input buffer if block_out is a multiple of block_in, and otherwise through the accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics import dma
from vdla.compiler.operators.vdla.layouts import Layout, activation_layout, scale_layout
from vdla.compiler.operators.vdla.operator import Array
from vdla.compiler.operators.vdla.packing import blocks, check_array, check_output, pack_activations, unpack_activations
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT, SCALE, WINDOW, Role
from vdla.compiler.operators.vdla.sliding_window import PaddedImage, SlidingWindow, check_extents
from vdla.compiler.operators.vdla.tiling_problem import TilingProblem
from vdla.compiler.tensorize import Intrinsic
from vdla.hardware.config import Buffer
from vdla.hardware.isa import Source


@dataclass(frozen=True)
class ChannelwiseWindow(SlidingWindow):
    """A window over activations that maps each channel to itself; padding holds `fill`."""

    fill: int = 0

    def check_channels(self) -> None:
        """Reject a channel count that is not positive."""
        check_extents(self.name, [("channels", self.in_channels)])

    @property
    def source(self) -> Source:
        """The buffer from which the vector unit reads activations."""
        return Source.INP if self.config.block_out % self.config.block_in == 0 else Source.ACC

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the packed activations in DRAM."""
        batch, block = self.config.batch, self.config.block_out
        return blocks(self.batch, batch), blocks(self.in_channels, block), self.height, self.width, batch, block

    @property
    def results_shape(self) -> tuple[int, ...]:
        """Shape of the packed results."""
        return (*self.shape[:2], *self.out_size, *self.shape[4:])

    @property
    def steps(self) -> int:
        """Elements in the windows of all results, without the padding of channels."""
        return self.batch * self.in_channels * self.out_size[0] * self.out_size[1] * self.taps

    def problem(self, weights: int = 0, inputs: int = 1, lanes: int = 1, sums: int = 1) -> TilingProblem:
        """The operator as the tile search sees it."""
        through_acc = self.source is Source.ACC
        kept, cuts = self.padding() if self.neutral_fill and not through_acc else (1.0, (0, 0))
        return TilingProblem(
            batches=self.shape[0],
            out_blocks=self.shape[1],
            in_blocks=1,
            rows=self.out_size[0],
            cols=self.out_size[1],
            taps=self.taps,
            row_step=self.strides[0],
            row_span=self.span[0],
            col_step=self.strides[1],
            col_span=self.span[1],
            weights=weights,
            raw=self.results.raw,
            separate=True,
            inputs=inputs,
            unit=1 if through_acc else self.config.block_out // self.config.block_in,
            through_acc=through_acc,
            lanes=lanes,
            sums=sums,
            kept=kept,
            cuts=cuts,
        )

    @property
    def neutral_fill(self) -> bool:
        """Whether padding changes no result, so that computation on it is skipped."""
        return self.fill == 0

    def load(self) -> Intrinsic:
        """The DMA that loads activations into the buffer of `source`."""
        if self.source is Source.ACC:
            return dma.load(self.config, Buffer.ACC, widen=True)
        return dma.load(self.config, Buffer.INP, (self.config.batch, self.config.block_out))

    def data(self, name: Role = DATA) -> te.Tensor:
        """The placeholder of the packed activations."""
        return te.placeholder(self.shape, self.config.inp_dtype, name)

    def padded_image(self, data: te.Tensor, stage: Role = WINDOW) -> te.Tensor:
        """The padded rows and columns that the windows cover, int32 for the accumulator."""
        dtype = "int32" if self.source is Source.ACC else self.config.inp_dtype
        return PaddedImage(self.pads_before, self.problem().window_size, self.fill).stage(data, dtype, stage)

    def element(self, image: te.Tensor, ky: te.ReduceAxis, kx: te.ReduceAxis, *i: te.Value) -> te.Value:
        """The element under tap [ky, kx] of the result at [n, c, y, x, b, o], as int32."""
        n, c, y, x, b, o = i
        (sh, sw), (dh, dw) = self.strides, self.dilations
        return te.cast("int32", image[n, c, y * sh + ky * dh, x * sw + kx * dw, b, o])

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        activations = activation_layout(self.config, block="block_out")
        return {DATA: activations, OUTPUT: activations, SCALE: scale_layout(self.config)}

    def pack_data(self, name: str, data: Array) -> Array:
        """NCHW activations in the program's layout."""
        shape = (self.batch, self.in_channels, self.height, self.width)
        return pack_activations(
            check_array(name, data, shape, self.config.inp_dtype), self.config.batch, self.config.block_out
        )

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """NCHW results from the program's outputs."""
        return unpack_activations(check_output(outputs, 6), (self.batch, self.out_channels, *self.out_size))

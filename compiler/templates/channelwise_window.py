"""Operators on the vector unit, channel by channel: depthwise convolution, pooling, addition.

Activations are packed in blocks of block_out, the width of the vector unit. They are read from the
input buffer if block_out is a multiple of block_in, and otherwise through the accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.map.fixed_form import fixed_form
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.operators.vdla.layouts import Layout, activation_layout, scale_layout
from vdla.compiler.operators.vdla.operator import Array
from vdla.compiler.operators.vdla.packing import check_array, check_output, pack_activations, unpack_activations
from vdla.compiler.operators.vdla.results import Classes
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT, SCALE
from vdla.compiler.operators.vdla.sliding_window import SlidingWindow, check_extents
from vdla.compiler.templates.plain_result import plain_result


@dataclass(frozen=True)
class ChannelwiseWindow(SlidingWindow):
    """A window over activations that maps each channel to itself; padding holds `fill`."""

    fill: int = 0

    def check_channels(self) -> None:
        """Reject a channel count that is not positive."""
        check_extents(self.name, [("channels", self.in_channels)])

    @property
    def steps(self) -> int:
        """Elements in the windows of all results, without the padding of channels."""
        return self.batch * self.in_channels * self.out_size[0] * self.out_size[1] * self.taps

    def form(
        self, sums: te.Tensor, extents: tuple[int, ...] = (), classes: Classes = lambda i: (), chunk: str | None = None
    ) -> PackedForm:
        """The program's form of plain sums [N, C, H, W], whose channels are the lanes of entries.

        `extents` and `classes` are those of `plain_result`.
        """
        output = plain_result(self.results, sums, extents, classes)
        return fixed_form(self.config, output, {"b": ("n",), "o": ("c",)}, chunk)

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

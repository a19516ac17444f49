"""What operators of the vector unit share: channels are the lanes of entries.

Activations are packed in blocks of block_out, the width of the vector unit. They are read from the
input buffer if block_out is a multiple of block_in, and otherwise through the accumulator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.map.fixed_form import fixed_form
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.vdla.layouts import Layout, activation_layout, scale_layout
from vdla.compiler.operators.vdla.operator import Array
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT, SCALE
from vdla.compiler.templates.host_arrays import packed_inputs, plain_output
from vdla.compiler.templates.sliding_window import SlidingWindow, check_extents
from vdla.hardware.config import Config


def channelwise_form(config: Config, output: te.Tensor, chunk: str | None = None) -> UntiledForm:
    """The form of plain results [n, c, ...]; windows are read in pieces along `chunk`."""
    return fixed_form(config, output, {"b": ("n",), "o": ("c",)}, chunk)


def channelwise_layouts(config: Config) -> dict[str, Layout]:
    """Layouts of one activation, the scale and the results."""
    activations = activation_layout(config, block="block_out")
    return {DATA: activations, OUTPUT: activations, SCALE: scale_layout(config)}


@dataclass(frozen=True)
class ChannelwiseWindow(SlidingWindow, ABC):
    """A window over activations that maps each channel to itself; a subclass has its definition."""

    def check_channels(self) -> None:
        """Reject a channel count that is not positive."""
        check_extents(self.name, [("channels", self.in_channels)])

    @property
    def steps(self) -> int:
        """Elements in the windows of all results, without the padding of channels."""
        return self.batch * self.in_channels * self.out_size[0] * self.out_size[1] * self.taps

    @property
    @abstractmethod
    def packed(self) -> UntiledForm:
        """The program's form."""

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        return channelwise_layouts(self.config)

    def pack_inputs(self, data: Array) -> dict[str, Array]:
        """The program's array from NCHW data."""
        return packed_inputs(self.packed, data=data)

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """NCHW results from the program's outputs."""
        return plain_output(self.packed, outputs)

# SPDX-License-Identifier: Apache-2.0
"""Operators whose kernel slides over an image, those that map each channel to itself among them.

Extents are those of the plain NCHW arrays. Operators of the vector unit have channels as the lanes
of entries: activations are packed in blocks of block_out, the width of the unit. They are read from
the input buffer if block_out is a multiple of block_in, and otherwise through the accumulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from vdla.compiler import te
from vdla.compiler.map.candidates import fixed_form
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.definitions.sliding import SlidingWindow
from vdla.compiler.operators.vdla.operator import Array, Layout, TemplateError
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT, SCALE
from vdla.compiler.templates.checks import Pads, Pair, check_extents, four_pads, pair
from vdla.compiler.templates.template import Template
from vdla.hardware.config import Config

BORDERS = "HW", ", row class, column class"
"""The dimensions of a scale that has lanes for each class of rows and of columns."""


@dataclass(frozen=True, kw_only=True)
class WindowTemplate(Template):
    """A kernel over images of [batch, channels, height, width]."""

    batch: int
    height: int
    width: int
    kernel: int | Pair
    strides: int | Pair = 1
    pads: int | Pair | Pads = 0
    dilations: int | Pair = 1

    @cached_property
    def window(self) -> SlidingWindow:
        """The window of the definition.

        Raises:
            TemplateError: an option is out of range.
        """
        taps, strides = (pair(self.name, what, getattr(self, what), 1) for what in ("kernel", "strides"))
        pads = four_pads(self.name, self.pads)
        dilations = pair(self.name, "dilations", self.dilations, 1)
        return SlidingWindow(
            size=(self.height, self.width),
            taps=taps,
            strides=strides,
            before=pads[:2],
            after=pads[2:],
            dilations=dilations,
        )

    @property
    def taps(self) -> int:
        """Positions of the kernel."""
        return prod(self.window.taps)

    def check(self) -> None:
        """Also reject shapes without results."""
        window = self.window
        check_extents(self.name, batch=self.batch, height=self.height, width=self.width)
        self.check_channels()
        self.check_size(window)
        super().check()

    def check_channels(self) -> None:
        """Reject channel counts that are not positive."""
        counts = ("channels", "in_channels", "out_channels")
        check_extents(self.name, **{what: getattr(self, what) for what in counts if hasattr(self, what)})

    def check_size(self, window: SlidingWindow) -> None:
        """Reject a kernel that is larger than the padded image."""
        if min(window.places) < 1:
            padded = (sum(sides) for sides in zip(window.size, window.before, window.after, strict=True))
            rule = f"kernel must fit the padded input of {_by(padded)}"
            raise TemplateError(f"{self.name}: {rule}, got one that spans {_by(window.span)}")

    @property
    def plain(self) -> dict[str, Any]:
        """The extents, the window and the type of inputs, as definitions take them."""
        window = self.window
        return {
            "batch": self.batch,
            "size": window.size,
            "kernel": window.taps,
            "strides": window.strides,
            "pads": self.window.pads,
            "dilations": window.dilations,
            "dtype": self.config.inp_dtype,
        }

    def class_of(self, index: tuple[te.Value, ...]) -> tuple[te.Value, ...]:
        """The classes of the row and of the column of [n, c, y, x]."""
        return self.window.class_of(index[2:])

    def pack_inputs(self, data: Array) -> dict[str, Array]:
        """The program's array from NCHW data."""
        return self.packed_arrays(data=data)


def _by(extents: Any) -> str:  # noqa: ANN401  any iterable of integers
    return "x".join(map(str, extents))


# --- operators of the vector unit -----------------------------------------------------------------


def channelwise_form(config: Config, output: te.Tensor, chunk: str | None = None) -> UntiledForm:
    """The form of plain results [n, c, ...]; windows are read in pieces along `chunk`."""
    return fixed_form(config, output, {"b": ("n",), "o": ("c",)}, chunk)


def channelwise_layouts(template: Template) -> dict[str, Layout]:
    """Layouts of one activation, the scale and the results."""
    name, dimensions = "NCHW{0.batch}n{0.block_out}c", "N/batch, C/block_out, H, W, batch, block_out"
    activations = template.layout(name, dimensions)
    return {DATA: activations, OUTPUT: activations, SCALE: template.scale_layout()}


@dataclass(frozen=True, kw_only=True)
class ChannelwiseWindow(WindowTemplate):
    """A window over activations that maps each channel to itself."""

    channels: int

    @property
    def macs(self) -> int:
        """Elements in the windows of all results, without the padding of channels."""
        return self.batch * self.channels * prod(self.window.places) * self.taps

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        return channelwise_layouts(self)

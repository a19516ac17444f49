"""Dense layers and matrix products, as a 1x1 convolution whose pixels are the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vdla.compiler import te
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.vdla.layouts import Layout
from vdla.compiler.operators.vdla.operator import Array, Factors, template
from vdla.compiler.templates.channel_sections import blocks, pad_to
from vdla.compiler.templates.checks import check_array, check_extents
from vdla.compiler.templates.conv2d import Conv2d
from vdla.compiler.templates.template import CHOSEN, CLIPPING, Template


@dataclass(frozen=True, kw_only=True)
class Dense(Template):
    """[rows, in_features] times the transpose of [out_features, in_features].

    Rows fill the machine's batch first. Options are those of `conv2d`.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """

    rows: int
    in_features: int
    out_features: int
    name: str = "dense"

    @cached_property
    def conv(self) -> Conv2d:
        """The convolution."""
        count, groups = self.config.batch, blocks(self.rows, self.config.batch)
        return Conv2d(
            self.config,
            batch=count,
            height=1,
            width=groups,
            in_channels=self.in_features,
            out_channels=self.out_features,
            kernel=1,
            packing="channels",
            **self.shared_options,
        )

    def check(self) -> None:
        """Also reject extents out of range."""
        extents = {"rows": self.rows, "in_features": self.in_features, "out_features": self.out_features}
        check_extents(self.name, **extents)
        super().check()

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the definition, without padding."""
        return self.rows * self.in_features * self.out_features

    @property
    def note(self) -> str:
        """What precedes the tiles in the description."""
        return self.conv.note

    @property
    def packed(self) -> UntiledForm:
        """The program's form."""
        return self.conv.packed

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        return self.conv.layouts

    def pack_inputs(self, data: Array) -> dict[str, Array]:
        """The program's array of the rows."""
        data = check_array("data", data, (self.rows, self.in_features), self.config.inp_dtype)
        shape = (self.conv.width, self.config.batch, self.in_features)
        image = pad_to(data, (shape[0] * shape[1], self.in_features)).reshape(shape)
        return self.conv.pack_inputs(image.transpose(1, 2, 0)[:, :, None, :])

    def pack_constants(self, weight: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from weights, int32 biases and real multipliers."""
        weight = check_array("weight", weight, (self.out_features, self.in_features), self.config.wgt_dtype)
        return self.conv.pack_constants(weight[:, :, None, None], bias, multiplier)

    def unpack(self, outputs: Mapping[str, Array], view: te.Tensor | None = None) -> Array:
        """[rows, out_features] from the program's outputs."""
        image = self.conv.unpack(outputs, view)  # [batch, out_features, 1, groups]
        return np.ascontiguousarray(image[:, :, 0].transpose(2, 0, 1).reshape(-1, self.out_features)[: self.rows])


_RESULTS = ("activation", *CLIPPING, "input_zero_point", "raw", *CHOSEN)
dense = template("dense", Dense, ("rows", "in_features", "out_features", *_RESULTS))

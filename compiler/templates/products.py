# SPDX-License-Identifier: Apache-2.0
"""Products of matrices: dense layers, as a 1x1 convolution whose pixels are the rows, and batched
products of two activations, such as the two products of attention.

The second factor of these takes the place of the weights. In blocks of its depth, it is
[rows, block_in] like every activation of a dense layer, so the results of one product are a factor
of the next one as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vdla.compiler import te
from vdla.compiler.map.candidates import fixed_form
from vdla.compiler.map.packing import pack_array
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.definitions import batched_product
from vdla.compiler.operators.vdla.operator import Array, Factors, Layout, TemplateError, in_sections, template
from vdla.compiler.operators.vdla.roles import DATA, OTHER, OUTPUT, SCALE
from vdla.compiler.templates.channel_sections import blocks, pad_to
from vdla.compiler.templates.checks import check_array, check_extents, check_flag
from vdla.compiler.templates.conv2d import Conv2d
from vdla.compiler.templates.template import CHOSEN, CLIPPING, RESULTS, Template


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


@dataclass(frozen=True, kw_only=True)
class BatchedMatmul(Template):
    """[batch, rows, depth] times the transpose of [batch, columns, depth].

    Without `transposed`, `pack` takes the second factor as [batch, depth, columns] and transposes
    it. Only the first factor has a zero point, and elements of the second fit those of weights.
    Rows fill the machine's batch; columns and depth are padded to whole blocks in each product.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """

    batch: int
    rows: int
    depth: int
    columns: int
    transposed: bool = True
    name: str = "batched_matmul"

    @property
    def _extents(self) -> dict[str, int]:
        return {"batch": self.batch, "rows": self.rows, "depth": self.depth, "columns": self.columns}

    def check(self) -> None:
        """Also reject extents out of range."""
        check_extents(self.name, **self._extents)
        check_flag(self.name, "transposed", self.transposed)
        super().check()

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the definition, without padding."""
        return self.batch * self.rows * self.depth * self.columns

    @cached_property
    def packed(self) -> UntiledForm:
        """The program's form."""
        config = self.config
        sums = batched_product(**self._extents, dtype=config.inp_dtype, weight_dtype=config.wgt_dtype).output
        return fixed_form(config, self.result(sums, channels=(0, 2)), {"b": ("m",), "o": ("n",), "i": ("k",)})

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors: of factors, G, blocks of the depth, C, and of rows or
        columns, R.
        """
        factor = "sections, depth/block_in, rows/{0}, {0}, block_in"
        return {
            DATA: self.layout("GCR{0.batch}r{0.block_in}c", factor.format("batch")),
            OTHER: self.layout("GCR{0.block_out}r{0.block_in}c", factor.format("block_out")),
            SCALE: in_sections(self.scale_layout("columns"), 0),
            OUTPUT: in_sections(self.layout(*RESULTS), 1),
        }

    def pack(self, data: Array, other: Array, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from both factors and a real multiplier."""
        sums = self._check_other(other).sum(axis=1, dtype=np.int64)
        return self.pack_inputs(data, other) | self.pack_constants(multiplier, sums)

    def pack_inputs(self, data: Array | None = None, other: Array | None = None) -> dict[str, Array]:
        """The program's arrays of the factors that are given."""
        return self.packed_arrays(data=data, other=None if other is None else self._check_other(other))

    def pack_constants(self, multiplier: Factors = None, sums: Array | None = None) -> dict[str, Array]:
        """The scale; with a zero point, of `sums` [batch, columns] over the depth of the second
        factor.
        """
        if sums is None and self.input_zero_point:
            raise TemplateError(f"{self.name}: sums of the second factor must be given with a zero point, got None")
        columns = (self.batch, self.columns)
        offset = np.zeros(columns, np.int64) if sums is None else -self.input_zero_point * sums
        lanes = self.lanes(None, multiplier, offset.reshape(-1))
        return {} if lanes is None else {str(SCALE): pack_array(self.packed, SCALE, lanes.reshape(columns))}

    def _check_other(self, other: Array) -> Array:
        """The second factor as [batch, depth, columns]."""
        sides = (self.columns, self.depth) if self.transposed else (self.depth, self.columns)
        checked = check_array("other", other, (self.batch, *sides), self.config.wgt_dtype)
        return checked.transpose(0, 2, 1) if self.transposed else checked


_RESULTS = ("activation", *CLIPPING, "input_zero_point", "raw", "table", *CHOSEN)
dense = template("dense", Dense, ("rows", "in_features", "out_features", *_RESULTS))
batched_matmul = template(
    "batched_matmul", BatchedMatmul, ("batch", "rows", "depth", "columns", "transposed", *_RESULTS)
)

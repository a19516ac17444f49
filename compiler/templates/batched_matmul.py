"""Batched products of two activations, such as the two products of attention.

The second factor takes the place of the weights. In blocks of its depth, it is [rows, block_in]
like every activation of a dense layer, so the results of one product are a factor of the next one
as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from vdla.compiler.map.fixed_form import fixed_form
from vdla.compiler.map.packing import pack_array
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.definitions import batched_product
from vdla.compiler.operators.vdla.checks import check_array
from vdla.compiler.operators.vdla.layouts import Layout, factor_layout, in_sections, result_layout, scale_layout
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, TemplateError, template
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import DATA, OTHER, OUTPUT, SCALE
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.host_arrays import packed_inputs, plain_output
from vdla.compiler.templates.mapped_template import tiled_template
from vdla.compiler.templates.plain_result import plain_result
from vdla.compiler.templates.sliding_window import check_extents, check_threads
from vdla.hardware.config import Config


@template
def batched_matmul(
    config: Config,
    *,
    batch: int,
    rows: int,
    depth: int,
    columns: int,
    transposed: bool = True,
    activation: str = "none",
    floor: int | None = None,
    ceiling: int | None = None,
    zero_point: int = 0,
    input_zero_point: int = 0,
    raw: bool = False,
    virtual_threads: int = 2,
    tiling: Tiling | None = None,
    name: str = "batched_matmul",
) -> Operator:
    """[batch, rows, depth] times the transpose of [batch, columns, depth].

    Without `transposed`, `pack` takes the second factor as [batch, depth, columns] and transposes
    it. Only the first factor has a zero point, and elements of the second fit those of weights.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """
    check_extents(name, [("batch", batch), ("rows", rows), ("depth", depth), ("columns", columns)])
    if not isinstance(transposed, bool):
        raise TemplateError(f"{name}: transposed must be True or False, got {transposed!r}")
    results = Results(
        config=config, name=name, activation=activation, floor=floor, ceiling=ceiling, zero_point=zero_point, raw=raw
    )
    product = _BatchedProduct(
        config=config,
        name=name,
        batch=batch,
        rows=rows,
        depth=depth,
        columns=columns,
        transposed=transposed,
        input_zero_point=input_zero_point,
        results=results,
    )
    product.results.check(input_zero_point)
    check_threads(name, virtual_threads)
    return tiled_template(product, virtual_threads, tiling, batch * rows * depth * columns)


@dataclass(frozen=True)
class _BatchedProduct:
    """Products [batch, rows, depth] by [batch, depth, columns]: their expression and layouts.

    Rows fill the machine's batch; columns and depth are padded to whole blocks in each product.
    """

    config: Config
    name: str
    batch: int
    rows: int
    depth: int
    columns: int
    transposed: bool
    input_zero_point: int
    results: Results

    @cached_property
    def packed(self) -> UntiledForm:
        """The program's form."""
        sums = batched_product(
            batch=self.batch,
            rows=self.rows,
            depth=self.depth,
            columns=self.columns,
            dtype=self.config.inp_dtype,
            weight_dtype=self.config.wgt_dtype,
        ).output
        output = plain_result(self.results, sums, channels=(0, 2))
        return fixed_form(self.config, output, {"b": ("m",), "o": ("n",), "i": ("k",)})

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        return {
            DATA: factor_layout(self.config, "batch"),
            OTHER: factor_layout(self.config, "block_out"),
            SCALE: in_sections(scale_layout(self.config, "columns"), 0),
            OUTPUT: in_sections(result_layout(self.config), 1),
        }

    def pack(self, data: Array, other: Array, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from both factors and a real multiplier."""
        other = self._check_other(other)
        sums = other.sum(axis=1, dtype=np.int64)
        return packed_inputs(self.packed, data=data, other=other) | self.pack_constants(multiplier, sums)

    def pack_inputs(self, data: Array | None = None, other: Array | None = None) -> dict[str, Array]:
        """The program's arrays of the factors that are given."""
        return packed_inputs(self.packed, data=data, other=None if other is None else self._check_other(other))

    def pack_constants(self, multiplier: Factors = None, sums: Array | None = None) -> dict[str, Array]:
        """The scale; with a zero point, of `sums` [batch, columns] over the depth of the second
        factor.
        """
        if sums is None and self.input_zero_point:
            raise TemplateError(f"{self.name}: sums of the second factor must be given with a zero point, got None")
        columns = (self.batch, self.columns)
        offset = np.zeros(prod(columns), np.int64) if sums is None else -self.input_zero_point * sums.reshape(-1)
        lanes = self.results.lanes(prod(columns), None, multiplier, offset)
        return {} if lanes is None else {str(SCALE): pack_array(self.packed, SCALE, lanes.reshape(columns))}

    def _check_other(self, other: Array) -> Array:
        """The second factor as [batch, depth, columns]."""
        shape = (self.batch, self.depth, self.columns)
        given = (shape[0], shape[2], shape[1]) if self.transposed else shape
        checked = check_array("other", other, given, self.config.wgt_dtype)
        return checked.transpose(0, 2, 1) if self.transposed else checked

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """[batch, rows, columns] from the program's outputs."""
        return plain_output(self.packed, outputs)

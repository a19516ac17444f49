"""Batched products of two activations, such as the two products of attention.

The second factor takes the place of the weights. In blocks of its depth, it is [rows, block_in]
like every activation of a dense layer, so the results of one product are a factor of the next one
as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vdla.compiler.map.fixed_form import fixed_form
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.operators.definitions import batched_product
from vdla.compiler.operators.vdla.layouts import Layout, factor_layout, in_sections, result_layout, scale_layout
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, TemplateError, template
from vdla.compiler.operators.vdla.packing import blocks, check_array, check_output, pad_to
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import DATA, OTHER, OUTPUT, SCALE
from vdla.compiler.operators.vdla.sliding_window import check_extents, check_threads
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.mapped_template import tiled_template
from vdla.compiler.templates.plain_result import plain_result
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
    product = _BatchedProduct(
        config=config,
        name=name,
        batch=batch,
        rows=rows,
        depth=depth,
        columns=columns,
        transposed=transposed,
        input_zero_point=input_zero_point,
        results=Results(
            config=config,
            name=name,
            activation=activation,
            floor=floor,
            ceiling=ceiling,
            zero_point=zero_point,
            raw=raw,
        ),
    )
    product.results.check(input_zero_point)
    check_threads(name, virtual_threads)
    return tiled_template(product, product.form(), virtual_threads, tiling, batch * rows * depth * columns)


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

    def form(self) -> PackedForm:
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
        sums = other.sum(axis=2, dtype=np.int64)
        return self.pack_inputs(data) | self._pack_other(other) | self.pack_constants(multiplier, sums)

    def pack_inputs(self, data: Array | None = None, other: Array | None = None) -> dict[str, Array]:
        """The program's arrays of the factors that are given."""
        packed = {}
        if data is not None:
            data = check_array("data", data, (self.batch, self.rows, self.depth), self.config.inp_dtype)
            packed[str(DATA)] = self._pack_rows(data, self.config.batch)
        return packed if other is None else packed | self._pack_other(self._check_other(other))

    def pack_constants(self, multiplier: Factors = None, sums: Array | None = None) -> dict[str, Array]:
        """The scale; with a zero point, of `sums` [batch, columns] over the depth of the second
        factor.
        """
        if sums is None and self.input_zero_point:
            raise TemplateError(f"{self.name}: sums of the second factor must be given with a zero point, got None")
        channels, block = self.batch * self.columns, self.config.block_out
        offset = np.zeros(channels, np.int64) if sums is None else -self.input_zero_point * sums.reshape(-1)
        whole = (self.batch, blocks(self.columns, block) * block)

        def arrange(lanes: Array) -> Array:
            return pad_to(lanes.reshape(self.batch, self.columns), whole).reshape(-1)

        packed = self.results.pack(channels, None, multiplier, offset, arrange=arrange)
        return {name: array.reshape(self.batch, -1, block) for name, array in packed.items()}

    def _check_other(self, other: Array) -> Array:
        """The second factor as [batch, columns, depth]."""
        shape = (self.batch, self.columns, self.depth)
        given = shape if self.transposed else (shape[0], shape[2], shape[1])
        checked = check_array("other", other, given, self.config.wgt_dtype)
        return checked if self.transposed else checked.transpose(0, 2, 1)

    def _pack_other(self, other: Array) -> dict[str, Array]:
        return {str(OTHER): self._pack_rows(other, self.config.block_out)}

    def _pack_rows(self, array: Array, block: int) -> Array:
        """[batch, rows, depth] as [batch, depth / block_in, rows / block, block, block_in]."""
        high, deep = blocks(array.shape[1], block), blocks(self.depth, self.config.block_in)
        full = pad_to(array, (self.batch, high * block, deep * self.config.block_in))
        split = full.reshape(self.batch, high, block, deep, self.config.block_in)
        return np.ascontiguousarray(split.transpose(0, 3, 1, 2, 4), np.int8)

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """[batch, rows, columns] from the program's outputs."""
        packed = check_output(outputs, 7)[0, :, :, 0]  # batch, column blocks, row blocks, rows, columns
        rows = packed.transpose(0, 2, 3, 1, 4).reshape(self.batch, packed.shape[2] * packed.shape[3], -1)
        return np.ascontiguousarray(rows[:, : self.rows, : self.columns])

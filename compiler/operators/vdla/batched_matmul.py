"""Batched products of two activations, such as the two products of attention.

A batch is a group of a grouped convolution: its columns are channels, its rows pixels. The second
factor takes the place of the weights. In blocks of its depth, it is [rows, block_in] like every
activation of a dense layer, so the results of one product are a factor of the next one as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics.gemm import gemm
from vdla.compiler.operators.vdla.grouped_conv2d import GroupedConv2d
from vdla.compiler.operators.vdla.layouts import Layout, activation_layout, factor_layout, result_layout, scale_layout
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, TemplateError, template
from vdla.compiler.operators.vdla.packing import blocks, check_array, pad_to
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import DATA, OTHER, OUTPUT, SCALE, Role
from vdla.compiler.operators.vdla.schedule import schedule_tiles
from vdla.compiler.operators.vdla.sliding_window import check_extents, check_threads
from vdla.compiler.operators.vdla.tiling import choose_tiling
from vdla.compiler.operators.vdla.tiling_problem import Tiling
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
        batch=config.batch,
        height=1,
        width=blocks(rows, config.batch),
        in_channels=batch * depth,
        out_channels=batch * columns,
        kernel=(1, 1),
        strides=(1, 1),
        pads=(0, 0, 0, 0),
        dilations=(1, 1),
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
        groups=batch,
        rows=rows,
        transposed=transposed,
    )
    product.check()
    check_threads(name, virtual_threads)
    problem = product.problem
    chosen = choose_tiling(config, problem, virtual_threads, tiling, name)
    return Operator(
        name=name,
        config=config,
        function=schedule_tiles(
            config, product.expression(), problem, chosen, gemm(config), name, factor=product.factor
        ),
        macs=batch * rows * depth * columns,
        pack=product.pack_factors,
        pack_inputs=product.pack_both,
        pack_constants=product.pack_multiplier,
        unpack=product.unpack_rows,
        layouts=product.layouts,
        problem=problem,
        description=str(chosen),
    )


@dataclass(frozen=True)
class _BatchedProduct(GroupedConv2d):
    """A product for each group, whose pixels are `rows` and padding up to the machine's batch."""

    rows: int = 1
    transposed: bool = True

    @property
    def factor(self) -> Role:
        """The parameter that the GEMM reads as weights."""
        return OTHER

    @property
    def columns(self) -> int:
        """Columns of a result."""
        return self.out_channels // self.groups

    @property
    def depth(self) -> int:
        """Terms of a sum."""
        return self.in_channels // self.groups

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape of the packed second factor in DRAM."""
        config = self.config
        return self.sections * self.in_blocks, self.out_blocks, config.block_out, config.block_in

    def weight_entry(self, co: te.Value, *tap: te.ReduceAxis) -> tuple[te.Value | te.ReduceAxis, ...]:
        """The entry of an output block and a tap, whose row and column are 0."""
        if self.problem.separate:
            return co + tap[0], te.const(0, "int32")
        return co // self.out_blocks * self.in_blocks + tap[0], co % self.out_blocks

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        return {
            DATA: activation_layout(self.config),
            OTHER: factor_layout(self.config),
            SCALE: scale_layout(self.config, "CO"),
            OUTPUT: result_layout(self.config),
        }

    def pack_factors(self, data: Array, other: Array, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from both factors and a real multiplier."""
        other = self._check_other(other)
        sums = other.sum(axis=2, dtype=np.int64)
        return self.pack_both(data) | self._pack_other(other) | self.pack_multiplier(multiplier, sums)

    def pack_both(self, data: Array | None = None, other: Array | None = None) -> dict[str, Array]:
        """The program's arrays of the factors that are given."""
        packed = {} if data is None else self._pack_rows(data)
        return packed if other is None else packed | self._pack_other(self._check_other(other))

    def pack_multiplier(self, multiplier: Factors = None, sums: Array | None = None) -> dict[str, Array]:
        """The scale; with a zero point, of `sums` [batch, columns] over the depth of the second
        factor.
        """
        if sums is None and self.input_zero_point:
            raise TemplateError(f"{self.name}: sums of the second factor must be given with a zero point, got None")
        offset = np.zeros(self.out_channels, np.int64) if sums is None else -self.input_zero_point * sums.reshape(-1)
        return self.pack_results(None, multiplier, offset)

    def _pack_rows(self, data: Array) -> dict[str, Array]:
        config = self.config
        data = check_array("data", data, (self.groups, self.rows, self.depth), config.inp_dtype)
        image = pad_to(data, (self.groups, self.width * config.batch, self.depth))
        pixels = image.reshape(self.groups, self.width, config.batch, self.depth).transpose(2, 0, 3, 1)
        return self.pack_inputs(pixels.reshape(config.batch, -1, 1, self.width))

    def _check_other(self, other: Array) -> Array:
        """The second factor as [batch, columns, depth]."""
        shape = (self.groups, self.columns, self.depth)
        given = shape if self.transposed else (shape[0], shape[2], shape[1])
        checked = check_array("other", other, given, self.config.wgt_dtype)
        return checked if self.transposed else checked.transpose(0, 2, 1)

    def _pack_other(self, other: Array) -> dict[str, Array]:
        config = self.config
        full = pad_to(
            other, (self.groups, self.out_blocks * config.block_out, self.in_blocks * config.block_in)
        ).reshape(self.groups, self.out_blocks, config.block_out, self.in_blocks, config.block_in)
        return {"other": np.ascontiguousarray(full.transpose(0, 3, 1, 2, 4).reshape(self.weight_shape), np.int8)}

    def unpack_rows(self, outputs: Mapping[str, Array]) -> Array:
        """[batch, rows, columns] from the program's outputs."""
        image = self.unpack(outputs).reshape(self.config.batch, self.groups, self.columns, self.width)
        rows = image.transpose(1, 3, 0, 2).reshape(self.groups, -1, self.columns)
        return np.ascontiguousarray(rows[:, : self.rows])

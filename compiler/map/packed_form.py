"""A mapping as a packed tensor expression, and as the tile search sees it.

    window: the padded input, in packed dimensions
    sums: [sections, batches, blocks of results, rows, columns, entry]
    results: the epilogue of the plain expression, on packed indices

Of the axes that only the streamed operand has, the last two are tiled as rows and columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from vdla.compiler import ir, te
from vdla.compiler.arith import affine
from vdla.compiler.map.contraction import Contraction, IndexForm
from vdla.compiler.map.errors import MapError
from vdla.compiler.map.mapping import RESULT, Mapping, intrinsic_extents, require_covered, signatures
from vdla.compiler.map.packed_dimensions import (
    Block,
    Loop,
    PackedOperand,
    Window,
    axis_values,
    condition_of,
    pack_operand,
    value_of,
)
from vdla.compiler.operators.vdla.roles import OUTPUT, RESULTS, SCALE, SUMS, WINDOW
from vdla.compiler.operators.vdla.schedule import TileAxes
from vdla.compiler.operators.vdla.tiling_problem import TilingProblem
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name
from vdla.hardware.config import Config

_SPATIAL = 2  # axes that are tiled
_BATCH, _OUT, _IN = "b", "o", "i"  # blocks of the axes of the intrinsic, as loops


@dataclass(frozen=True)
class PackedForm:
    """A mapping for a machine; `output` is the plain result of `mapping.contraction`."""

    config: Config
    mapping: Mapping
    output: te.Tensor

    def __post_init__(self) -> None:
        require_covered(self.mapping)
        if self.held.access.padding is not None:
            name = self.held.access.tensor.name
            raise MapError(f"{self.mapping.held} must read an input as it is, got {name}, which is computed")

    @property
    def contraction(self) -> Contraction:
        """The plain sums."""
        return self.mapping.contraction

    @cached_property
    def streamed(self) -> PackedOperand:
        """The operand whose window moves."""
        return pack_operand(self.mapping, self.mapping.streamed)

    @cached_property
    def held(self) -> PackedOperand:
        """The other operand."""
        return pack_operand(self.mapping, self.mapping.held)

    # --- axes

    @cached_property
    def _outside(self) -> dict[str, list[str]]:
        """The axes around the intrinsic: sections, batches, rows, columns, taps."""
        found: dict[str, list[str]] = {"sections": [], "free": [], "taps": []}
        for axis, signature in signatures(self.contraction).items():
            if axis in self.mapping.mapped:
                continue
            if RESULT not in signature:
                found["taps"].append(axis)
            else:
                found["sections" if self.mapping.held in signature else "free"].append(axis)
        return found

    @property
    def sections(self) -> list[str]:
        """Axes in every operand: problems one after the other."""
        return self._outside["sections"]

    @property
    def taps(self) -> list[str]:
        """Axes of the reduction outside of the intrinsic."""
        return self._outside["taps"]

    @property
    def batches(self) -> list[str]:
        """Axes of the result that are not tiled."""
        return self._outside["free"][:-_SPATIAL]

    @property
    def tiled(self) -> list[str | None]:
        """The axes of rows and of columns; None where there is none."""
        found = self._outside["free"][-_SPATIAL:]
        return [None] * (_SPATIAL - len(found)) + found

    def _axes_of(self) -> tuple[str, str, str]:
        """The axes of the intrinsic: rows of results, lanes of results, terms."""
        rows, lanes, terms = list(self.mapping.groups)
        return rows, lanes, terms

    # --- the expression

    @cached_property
    def tensors(self) -> list[te.Tensor]:
        """[data, weight, (scale,) output] as tensor expressions."""
        data = self._placeholder(self.streamed)
        weight = self._placeholder(self.held)
        sums = self._sums(self._window(data), weight)
        return [data, weight, *self._results(sums)]

    def _placeholder(self, operand: PackedOperand) -> te.Tensor:
        shape = operand.shape(lambda window: operand.source.shape[window.dimension])
        return te.placeholder(shape, operand.source.dtype, _parameter(operand.source.name))

    def _window(self, data: te.Tensor) -> te.Tensor:
        operand, extents = self.streamed, self.contraction.extents
        padding = operand.access.padding
        shape = operand.shape(lambda window: window.extent(extents))

        def value(*at: te.Value) -> te.Value:
            indices = list(at)
            padded: dict[str, te.Value] = {}
            for place, dimension in enumerate(operand.dimensions):
                if isinstance(dimension, Window):
                    here = at[place] * dimension.step + dimension.form.const
                    before = padding.before[dimension.dimension] if padding else 0
                    padded[f"p{dimension.dimension}"] = here
                    indices[place] = here - before if before else here
            element = data[tuple(indices)]
            conditions = [condition_of(part, padded) for part in operand.chip_conditions()]
            if not conditions or padding is None:
                return element
            return te.select(te.all_of(*conditions), element, te.const(padding.fill, element.dtype))

        return te.compute(shape, value, WINDOW)

    def _sums(self, window: te.Tensor, weight: te.Tensor) -> te.Tensor:
        extents, (rows, lanes, terms) = self.contraction.extents, self._axes_of()
        inner = intrinsic_extents(self.mapping.intrinsic)
        reduced = {axis: te.reduce_axis(extents[axis], _plain(axis)) for axis in self.taps}
        block, lane = te.reduce_axis(self.mapping.blocks(terms), "ci"), te.reduce_axis(inner[terms], "i")
        names = [*map(_plain, self.sections), "n", *map(_plain, self.batches), "co", *self._tile_names(), "b", "o"]
        shape = [
            *(extents[axis] for axis in self.sections),
            self.mapping.blocks(rows),
            *(extents[axis] for axis in self.batches),
            self.mapping.blocks(lanes),
            *(1 if axis is None else extents[axis] for axis in self.tiled),
            inner[rows],
            inner[lanes],
        ]

        def value(*at: te.Value) -> te.Value:
            named = dict(zip(names, at, strict=True))
            loops: dict[str, Any] = {axis: named[_plain(axis)] for axis in (*self.sections, *self.batches)}
            loops |= {axis: named[name] for axis, name in zip(self.tiled, self._tile_names(), strict=True) if axis}
            loops |= reduced
            blocks = {rows: named["n"], lanes: named["co"], terms: block}
            entry = {rows: named["b"], lanes: named["o"], terms: lane}
            a = te.cast("int32", window[self._indices(self.streamed, loops, blocks, entry)])
            b = te.cast("int32", weight[self._indices(self.held, loops, blocks, entry)])
            return te.sum(a * b, axis=[block, *reduced.values(), lane])

        sums: te.Tensor = te.compute(shape, te.with_axes(names, value), SUMS)
        return sums

    def _indices(
        self, operand: PackedOperand, loops: dict[str, Any], blocks: dict[str, Any], entry: dict[str, Any]
    ) -> tuple[Any, ...]:
        found: list[Any] = []
        for dimension in operand.dimensions:
            match dimension:
                case Block(axis):
                    found.append(blocks[axis])
                case Loop(axis):
                    found.append(loops[axis])
                case Window():
                    found.append(value_of(IndexForm(dimension.strides), loops))
        return (*found, *(entry[axis] for axis in operand.entry))

    def _tile_names(self) -> list[str]:
        return [default if axis is None else _plain(axis) for axis, default in zip(self.tiled, ("y", "x"), strict=True)]

    # --- results

    @property
    def raw(self) -> bool:
        """Whether the result is the sums themselves."""
        return self.output.stage is self.contraction.stage

    @cached_property
    def lanes_of_results(self) -> list[te.Tensor]:
        """The inputs of the epilogue, one element for each lane."""
        stage = self.output.stage
        assert isinstance(stage, Stage)
        return [] if self.raw else [t for t in stage.reads if t.stage is not self.contraction.stage]

    def _results(self, sums: te.Tensor) -> list[te.Tensor]:
        if self.raw:
            results = te.compute(sums.shape, lambda *i: sums[i], RESULTS)
            return [te.compute(sums.shape, lambda *i: results[i], OUTPUT)]
        (plain,) = self.lanes_of_results
        scale = te.placeholder(self._scale_shape(), plain.dtype, SCALE)
        stage, first = self.output.stage, len(self.sections)
        assert isinstance(stage, Stage)
        co = first + 1 + len(self.batches)

        def value(*i: te.Value) -> te.Value:
            lane = scale[(*i[:first], i[co], i[-1])]
            loads = {self.contraction.stage.name: sums[i], plain.name: lane}
            replaced = _with_loads(stage.value.expr, {name: element.expr for name, element in loads.items()})
            return te.Value(replaced, stage.value.dtype, tensors=(sums, scale), axes=sums[i].axes)

        results = te.compute(sums.shape, value, RESULTS)
        return [scale, te.compute(sums.shape, lambda *i: results[i], OUTPUT)]

    def _scale_shape(self) -> tuple[int, ...]:
        lanes = self._axes_of()[1]
        sections = [self.contraction.extents[axis] for axis in self.sections]
        return (*sections, self.mapping.blocks(lanes), intrinsic_extents(self.mapping.intrinsic)[lanes])

    # --- packing

    def packed_inputs(self) -> dict[str, te.Tensor]:
        """Each packed input of the program as a computation over its plain tensor."""
        found = {}
        for operand in (self.streamed, self.held):
            name = _parameter(operand.source.name)
            found[name] = operand.packed(name)
        if not self.raw:
            found[str(SCALE)] = self._packed_scale()
        return found

    def _packed_scale(self) -> te.Tensor:
        (plain,) = self.lanes_of_results
        first, lanes = len(self.sections), self._axes_of()[1]
        form = self._scale_form(plain)

        def value(*at: te.Value) -> te.Value:
            values, valid = axis_values(self.mapping, {lanes: at[first]}, {lanes: at[first + 1]})
            values |= dict(zip(self.sections, at, strict=False))
            element = plain[value_of(form, values)]
            return te.select(te.all_of(*valid), element, te.const(0, element.dtype)) if valid else element

        return te.compute(self._scale_shape(), value, SCALE)

    def _scale_form(self, plain: te.Tensor) -> IndexForm:
        """The index of the epilogue's parameters, over the axes of the contraction."""
        stage = self.output.stage
        assert isinstance(stage, Stage)
        places = {axis_name(axis): whole for axis, whole in zip(stage.axes, self._whole_axes(), strict=True)}
        (load,) = {e for e in ir.walk_expr(stage.value.expr) if isinstance(e, ir.Load) and e.buffer == plain.name}
        found = affine(ir.substitute(load.indices[0], places)) if len(load.indices) == 1 else None
        inside = {*self.sections, *self.mapping.groups[self._axes_of()[1]]}
        if found is None or not set(found[0]) <= inside:
            got = ir.expr_text(load)
            raise MapError(f"{plain.name} must have one element for each lane of results, got {got}")
        return IndexForm(*found)

    def _whole_axes(self) -> list[ir.Expr]:
        """The index of each dimension of the result, over the axes of the contraction."""
        extents = self.contraction.extents
        found: list[ir.Expr] = []
        for digits in self.contraction.digits:
            below = [prod(extents[later] for later in digits[place + 1 :]) for place in range(len(digits))]
            found.append(IndexForm(dict(zip(digits, below, strict=True))).expr())
        return found

    def unpacked(self) -> te.Tensor:
        """The plain result as a computation over the program's output."""
        extents, intrinsic = self.contraction.extents, intrinsic_extents(self.mapping.intrinsic)
        packed = te.placeholder(self.tensors[-1].shape, self.output.dtype, OUTPUT)
        rows, lanes, _ = self._axes_of()

        def value(*at: te.Value) -> te.Value:
            values: dict[str, Any] = {}
            for index, digits in zip(at, self.contraction.digits, strict=True):
                for place, axis in enumerate(digits):
                    below = prod(extents[later] for later in digits[place + 1 :])
                    part = index // below if below > 1 else index
                    values[axis] = part % extents[axis] if place else part
            fused = {axis: self._fused(axis, values) for axis in (rows, lanes)}
            outer = [values[axis] for axis in self.sections]
            outer += [fused[rows] // intrinsic[rows], *(values[axis] for axis in self.batches)]
            outer += [fused[lanes] // intrinsic[lanes]]
            outer += [0 if axis is None else values[axis] for axis in self.tiled]
            return packed[(*outer, fused[rows] % intrinsic[rows], fused[lanes] % intrinsic[lanes])]

        return te.compute(self.output.shape, value, "plain")

    def _fused(self, axis: str, values: dict[str, Any]) -> te.Value:
        total: Any = te.const(0, "int32")
        for member in self.mapping.groups[axis]:
            total = total * self.contraction.extents[member] + values[member]
        return te.as_value(total, self.output.name)

    # --- tiles

    @property
    def tile_axes(self) -> TileAxes:
        """The axes of the sums by their part in the schedule."""
        rows, cols = self._tile_names()
        return TileAxes(
            sections=tuple(axis_name(_plain(axis)) for axis in self.sections),
            batches=("vn", *(axis_name(_plain(axis)) for axis in self.batches)),
            rows=axis_name(rows),
            cols=axis_name(cols),
        )

    @property
    def problem(self) -> TilingProblem:
        """The operator as the tile search sees it."""
        extents, (rows, lanes, terms) = self.contraction.extents, self._axes_of()
        row_step, row_span, col_step, col_span, unit = self._steps()
        held = [axis for axis in self.taps if axis in self.held.access.axes]
        return TilingProblem(
            batches=self.mapping.blocks(rows) * prod(extents[axis] for axis in self.batches),
            out_blocks=self.mapping.blocks(lanes),
            in_blocks=self.mapping.blocks(terms),
            rows=1 if self.tiled[0] is None else extents[self.tiled[0]],
            cols=1 if self.tiled[1] is None else extents[self.tiled[1]],
            taps=prod(extents[axis] for axis in self.taps),
            row_step=row_step,
            row_span=row_span,
            col_step=col_step,
            col_span=col_span,
            weights=prod(extents[axis] for axis in held),
            raw=self.raw,
            unit=unit,
            sections=prod(extents[axis] for axis in self.sections),
            kept=self._kept(),
        )

    def _steps(self) -> tuple[int, int, int, int, int]:
        """Step and span of rows, of columns; the entries of all other dimensions of a window."""
        taps = {axis: self.contraction.extents[axis] for axis in self.taps}
        found: dict[str | None, tuple[int, int]] = {}
        unit = prod(taps[axis] for axis in self.streamed.loops if axis in taps)
        for window in self.streamed.windows:
            moving = next((axis for axis in window.strides if axis in self.contraction.spatial), None)
            span = 1 + sum(s * (taps[axis] - 1) for axis, s in window.strides.items() if axis in taps)
            if moving in self.tiled and moving is not None:
                found[moving] = window.strides[moving], span
            else:
                unit *= span
        rows, cols = (found.get(axis, (1, 1)) if axis else (1, 1) for axis in self.tiled)
        return *rows, *cols, unit

    def _kept(self) -> float:
        """The share of the terms that do not read padding of 0, which is skipped."""
        padding = self.streamed.access.padding
        if padding is None or padding.fill:
            return 1.0
        share = 1.0
        for window in self.streamed.windows:
            reach = [np.arange(self.contraction.extents[axis]) * f for axis, f in window.form.terms.items()]
            at = window.form.const - padding.before[window.dimension] + sum(np.ix_(*reach))
            share *= float(((at >= 0) & (at < self.streamed.source.shape[window.dimension])).mean())
        return share


def _plain(axis: str) -> str:
    """The name of an axis in a tensor expression, apart from the names of the form itself."""
    return f"{axis.removeprefix('v')}_"


def _parameter(name: str) -> str:
    """A name of the program's that no stage has."""
    return f"{name}_packed"


def _with_loads(expr: ir.Expr, loads: dict[str, ir.Expr]) -> ir.Expr:
    """`expr` with every load of a tensor replaced."""
    if isinstance(expr, ir.Load):
        return loads[expr.buffer]
    old = ir.operands(expr)
    new = tuple(_with_loads(operand, loads) for operand in old)
    return expr if new == old else ir.with_operands(expr, new)

# SPDX-License-Identifier: Apache-2.0
"""What all templates share: options of the results, arrays on the host, the choice of tiles.

A template is a dataclass whose fields are its options. It computes a plain definition, which the
mapper packs, so that the sums of a result are requantised with one lane of the scale. A lane
belongs to one channel and, for some templates, to one class of positions: the phases of a
transposed convolution, the borders of an average.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from inspect import signature
from typing import Any

import numpy as np

from vdla.compiler import te
from vdla.compiler.map.expression_parts import MapError
from vdla.compiler.map.mapped_operator import MappedOperator
from vdla.compiler.map.packed_expression import result_axes
from vdla.compiler.map.packing import gather, pack_array, unpacked
from vdla.compiler.map.stage_function import is_function, stage_table, staged
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.definitions import requantised_by
from vdla.compiler.operators.vdla.operator import Array, Factors, Layout, Operator, TemplateError, choice
from vdla.compiler.operators.vdla.roles import SCALE, TABLE
from vdla.compiler.operators.vdla.tiling import choose_tiling
from vdla.compiler.operators.vdla.tiling_problem import Tiling, TilingProblem
from vdla.compiler.templates.checks import check_array, check_flag, check_multipliers, check_output, check_range
from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_scale, scales_from_floats, wrap32
from vdla.support.integers import is_int

Classes = Callable[[tuple[te.Value, ...]], tuple[te.Value, ...]]

ACTIVATIONS = "NCHW{0.batch}n{0.block_in}c", "N/batch, C/block_in, H, W, batch, block_in"
RESULTS = "NCHW{0.batch}n{0.block_out}c", "N/batch, CO/block_out, H, W, batch, block_out"
"""Layouts by name and dimensions, as `Template.layout` takes them."""
_OF_RESULTS = ("activation", "floor", "ceiling", "zero_point", "table")


@dataclass(frozen=True, kw_only=True)
class Template(ABC):
    """The options of templates; a template that lacks an option declares it as a field without
    `init`.
    """

    config: Config = field(kw_only=False)
    activation: str = choice("none", "relu", default="none")
    floor: int | None = None
    ceiling: int | None = None
    zero_point: int = 0
    input_zero_point: int = 0
    raw: bool = False
    table: bool = False
    virtual_threads: int = 2
    tiling: Tiling | None = None
    chained: bool = field(default=False, init=False)
    name: str = ""

    @property
    def shared_options(self) -> dict[str, Any]:
        """The options that all templates have, except for the machine, by name."""
        return {option.name: getattr(self, option.name) for option in fields(Template)[1:] if option.init}

    # --- what a template defines

    @property
    @abstractmethod
    def packed(self) -> UntiledForm:
        """The program's form."""

    @property
    @abstractmethod
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""

    @property
    @abstractmethod
    def macs(self) -> int:
        """Multiply-accumulates of the definition, without padding."""

    @abstractmethod
    def pack_inputs(self, data: Array) -> dict[str, Array]:
        """The program's arrays of activations."""

    @abstractmethod
    def pack_constants(self, *arrays: Any, **named: Any) -> dict[str, Array]:  # noqa: ANN401
        """The program's arrays of all that `pack` takes after activations."""

    # --- the operator

    @property
    def problem(self) -> TilingProblem:
        """The operator as the tile search sees it."""
        return replace(self.packed.problem, chained=self.chained)

    @property
    def note(self) -> str:
        """What precedes the tiles in the description."""
        return ""

    def with_tiling(self) -> tuple[Template, Tiling]:
        """The template in its best form, with the given tiles or the best that a search finds.

        Raises:
            TemplateError: the given tiling is invalid or does not fit the buffers, or none fits.
        """
        return self, choose_tiling(self.config, self.problem, self.virtual_threads, self.tiling, self.name)

    def tiled(self, tiling: Tiling) -> Operator:
        """The operator with tiles."""
        mapped = MappedOperator(self.name, self.packed, tiling)
        return Operator(
            name=self.name,
            config=self.config,
            mapped=mapped,
            macs=self.macs,
            pack=self.pack,
            pack_inputs=self.pack_inputs,
            pack_constants=self.packed_constants,
            unpack=self.unpack,
            layouts=self.layouts,
            problem=self.problem,
            timed=self.packed.timed_problem,
            tiling=tiling,
            with_tiles=self.tiled,
            description=f"{self.note}{tiling}",
        )

    def operator(self) -> Operator:
        """The operator of checked options.

        Raises:
            TemplateError: an option is out of range, or no tile fits the buffers.
        """
        self.check()
        if not is_int(self.virtual_threads) or self.virtual_threads < 1:
            raise TemplateError(f"{self.name}: virtual_threads must be at least 1, got {self.virtual_threads!r}")
        try:
            form, tiling = self.with_tiling()
        except MapError as error:  # the machine cannot look results up
            raise TemplateError(str(error)) from None
        return form.tiled(tiling)

    # --- results

    def check(self) -> None:
        """Reject options out of range, and a zero point of inputs that raw sums would hold."""
        low, high = check_range(f"{self.name}: zero_point", self.zero_point, self.config.out_dtype)
        self._check_bound("floor", low, high)
        check_flag(self.name, "raw", self.raw)
        check_flag(self.name, "table", self.table)
        for option in _OF_RESULTS if self.raw else ():
            value, default = getattr(self, option), getattr(Template, option)
            if value != default:
                raise TemplateError(f"{self.name}: {option} must be {default!r} for raw sums, got {value!r}")
        self._check_bound("ceiling", self._bounds[0], high)
        check_range(f"{self.name}: input_zero_point", self.input_zero_point, self.config.inp_dtype)
        if self.raw and self.input_zero_point:
            raise TemplateError(f"{self.name}: input_zero_point must be 0 for raw sums, got {self.input_zero_point}")

    def _check_bound(self, what: str, low: int, high: int) -> None:
        bound = getattr(self, what)
        if bound is not None and not (is_int(bound) and low <= bound <= high):
            raise TemplateError(f"{self.name}: {what} must be in {low}..{high}, got {bound!r}")

    @property
    def _bounds(self) -> tuple[int, int]:
        """The clip bounds: the output type's, raised by relu and floor, lowered by the ceiling."""
        half = 1 << (self.config.out_bits - 1)
        low = self.zero_point if self.activation == "relu" else -half
        return low if self.floor is None else max(low, self.floor), half - 1 if self.ceiling is None else self.ceiling

    def result(
        self,
        sums: te.Tensor,
        extents: tuple[int, ...] = (),
        classes: Classes = lambda i: (),
        channels: Sequence[int] = (1,),
    ) -> te.Tensor:
        """The plain results of plain sums [N, C, ...]: these if raw, or requantised.

        `channels` are the axes whose elements have lanes of their own; `extents` are the numbers of
        classes of positions that have, `classes` the class of a position.
        """
        if self.raw:
            return sums
        shape = (*(sums.shape[axis] for axis in channels), *extents)
        result = requantised_by(
            sums,
            shape,
            lambda i: (*(i[axis] for axis in channels), *classes(i)),
            self.config.out_dtype,
            self.zero_point,
            self._bounds,
        )[1]
        return self._looked_up(result) if self.table else result

    def _looked_up(self, result: te.Tensor) -> te.Tensor:
        """The elements of the table at the place of each result, the least one first, or what the
        stage of the machine computes without a table.
        """
        if self.config.stage is not None and is_function(self.config):
            return staged(result, self.config)
        half = 1 << (self.config.out_bits - 1)
        table = te.placeholder((2 * half,), self.config.out_dtype, str(TABLE))
        return te.compute(result.shape, lambda *i: table[te.cast("int32", result[i]) + half], result.name)

    # --- arrays

    def layout(self, name: str, dimensions: str) -> Layout:
        """A layout whose name has the sizes of the machine."""
        return Layout(name.format(self.config), dimensions)

    def scale_layout(self, channels: str = "C", name: str = "", classes: str = "") -> Layout:
        """Scales, one lane for each channel and class of positions; `name` is that of classes."""
        dimensions = f"{channels}/block_out{classes}, block_out: bias, multiplier, shift"
        return self.layout(f"C{name}{{0.block_out}}c", dimensions)

    def pack(self, *arrays: Any, **named: Any) -> dict[str, Array]:  # noqa: ANN401  of any template
        """The program's arrays from what `pack_inputs` and then `pack_constants` take."""
        names = signature(self.pack_inputs).parameters
        inputs = {name: named.pop(name) for name in names if name in named}
        count = len(names) - len(inputs)
        if len(arrays) < count:
            raise TypeError(f"{self.name}: pack must get {', '.join(names)}, got {len(arrays)} arrays")
        return self.pack_inputs(*arrays[:count], **inputs) | self.packed_constants(*arrays[count:], **named)

    def packed_constants(self, *arrays: Any, table: Array | None = None, **named: Any) -> dict[str, Array]:  # noqa: ANN401  of any template
        """The arrays of what `pack_constants` takes, and the table if there is one."""
        packed = self.pack_constants(*arrays, **named)
        if (table is not None) != self.table:
            rule = f"table must be {'given' if self.table else 'left out'} with table={self.table}"
            raise TemplateError(f"{self.name}: {rule}, got {'none' if table is None else 'one'}")
        if table is not None and is_function(self.config):
            self._require_function(table)
        if table is None or self.packed.form.result_table is None:
            return packed
        name, place = self.packed.form.result_table
        return packed | {name: check_array("table", table, place.source.shape, place.source.dtype).reshape(place.entry)}

    def _require_function(self, table: Array) -> None:
        """TemplateError unless the stage of the machine computes what a table has."""
        wrong = np.flatnonzero(stage_table(self.config) != table)
        if len(wrong):
            stage, least = self.config.stage, -(1 << (self.config.out_bits - 1))
            assert stage is not None, "a machine whose stage is a function"
            rule = f"table must be what stage {stage.name} computes"
            raise TemplateError(f"{self.name}: {rule}, got {len(wrong)} other results, the first of {wrong[0] + least}")

    def packed_arrays(self, **arrays: Array | None) -> dict[str, Array]:
        """The program's inputs of the plain arrays that are given, by name.

        Raises:
            TemplateError: an array has another shape than the plain tensor, or other elements.
        """
        form = self.packed.form
        sources = {form.parameter(name): operand.source for name, operand in form.operands.items()}
        given = {name: array for name, array in arrays.items() if array is not None}
        checked = {name: check_array(name, a, sources[name].shape, sources[name].dtype) for name, a in given.items()}
        return {name: pack_array(self.packed, name, array) for name, array in checked.items()}

    def packed_scale(
        self, bias: Array | None, multiplier: Factors, offset: Array, counts: Array | int = 1
    ) -> dict[str, Array]:
        """The program's scale, none of raw results; arguments are those of `lanes`."""
        lanes = self.lanes(bias, multiplier, offset, counts)
        return {} if lanes is None else {str(SCALE): pack_array(self.packed, SCALE, lanes)}

    def lanes(self, bias: Array | None, multiplier: Factors, offset: Array, counts: Array | int = 1) -> Array | None:
        """[channels, *classes]: bias + offset and multiplier / counts of each, None if raw.

        `offset` is [channels, *classes], and `counts` broadcasts to it. Biases wrap to 32 bits, as
        sums do.
        """
        if self.raw:
            if bias is not None or multiplier is not None:
                given = "a bias" if bias is not None else "a multiplier"
                raise TemplateError(f"{self.name}: raw sums must have no bias and no multiplier, got {given}")
            return None
        channels = len(offset)
        sides = (channels,) + (1,) * (offset.ndim - 1)
        biases = np.zeros(channels, np.int64) if bias is None else check_array("bias", bias, (channels,), "int32")
        if multiplier is None:
            raise TemplateError(
                f"{self.name}: multiplier must be given to requantise the sums, got None; 1.0 only clips them, and "
                "with raw=True they stay int32"
            )
        factors = check_multipliers(multiplier, channels).reshape(sides) / counts
        return np.asarray(
            pack_scale(wrap32(biases.reshape(sides) + offset), *scales_from_floats(factors)).view(np.int64)
        )

    def zero_point_offset(self, weight: Array) -> Array:
        """What takes the share of the input's zero point out of the sums of each result, int64.

        It has the dimensions of the weights, as the sums read them, over which these do not reduce.
        """
        computation = self.packed.form.computation
        access = computation.operands[str(computation.held)]
        reduced = [index.axes <= set(computation.reduce) for index in access.forms]
        if self.input_zero_point == 0:
            return np.zeros([n for n, inner in zip(access.tensor.shape, reduced, strict=True) if not inner], np.int64)
        read = np.asarray(weight) if access.gather is None else gather(access.tensor, weight)
        return np.asarray(-self.input_zero_point * read.sum(axis=tuple(np.flatnonzero(reduced)), dtype=np.int64))

    def unpack(self, outputs: Mapping[str, Array], view: te.Tensor | None = None) -> Array:
        """The plain result, or the elements of it that are those of a `view`, from a run's outputs.

        Raises:
            TemplateError: there is no array of the results' rank.
        """
        form = self.packed.form
        return gather(unpacked(form, view), check_output(outputs, len(result_axes(form)[0])))

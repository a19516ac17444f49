# SPDX-License-Identifier: Apache-2.0
"""What programs of one form with different tiles share; it is computed once, when it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from vdla.compiler import ir, te
from vdla.compiler.codegen.vdla.intrinsics import dma, requantise
from vdla.compiler.map.computation import FromLanes, FromTable
from vdla.compiler.map.packed_expression import packed_tensors, step_name
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.packed_lanes import lanes_of
from vdla.compiler.map.packed_operand import PackedOperand
from vdla.compiler.map.packed_scale import PackedScale
from vdla.compiler.map.tile_facts import tiling_problem
from vdla.compiler.operators.vdla.roles import RESULTS
from vdla.compiler.operators.vdla.schedule import StagedFunction, TileIntrinsics
from vdla.compiler.operators.vdla.tiling_problem import TilingProblem
from vdla.compiler.tensorize import Intrinsic
from vdla.hardware.config import Buffer


@dataclass(frozen=True, eq=False)
class UntiledForm:
    """A form with its packed expression and what tiles cut up."""

    form: PackedForm

    @cached_property
    def scale(self) -> PackedScale | None:
        """The scale of requantised results."""
        return None if self.form.raw else PackedScale(self.form)

    @cached_property
    def tensors(self) -> list[te.Tensor]:
        """[each operand, (scale,) output] of the program."""
        return packed_tensors(self.form, self.scale)

    @cached_property
    def problem(self) -> TilingProblem:
        """What tiles cut up.

        Raises:
            MapError: the epilogue does not fit the mapping.
        """
        return tiling_problem(self.form, self.scale)

    @cached_property
    def timed_problem(self) -> TilingProblem:
        """The problem with what its program takes and the search for tiles, whose order of tiles
        hardly depends on it, leaves out.

        These are the steps of a term, unless they wait for as many operands to be loaded beside
        them, and the entries of windows in the accumulator, which are as wide as results.
        """
        problem, config, steps = self.problem, self.form.config, len(self.form.computation.steps)
        waits = steps <= problem.inputs and not problem.through_acc
        entry = config.out_entry_bytes / config.inp_entry_bytes if problem.through_acc else problem.entry
        return replace(problem, step=problem.step if waits else max(problem.step, steps), entry=entry)

    @cached_property
    def staged(self) -> StagedFunction:
        """The program's function before it is tiled, called like the plain result."""
        return StagedFunction.of(self.tensors, self._intrinsics, self.form.output.name)

    @property
    def _intrinsics(self) -> TileIntrinsics:
        """What the stages are computed with."""
        form, (*before, core) = self.form, self.form.computation.steps
        held = [] if form.held is None else [(form.parameter(str(form.computation.held)), form.held)]
        return TileIntrinsics(
            windows={form.window(name): self._load(name) for name in form.streamed},
            before={step_name(form, step): step.intrinsic for step in before},
            sums=core.intrinsic,
            weights={
                name: dma.load(form.config, Buffer.WGT, operand.lanes, dtype=operand.source.dtype)
                for name, operand in held
            },
            results=self._results,
            tables=tuple(self._table_loads()),
            after={step_name(form, step): step.intrinsic for step in form.computation.steps_after},
        )

    @property
    def _results(self) -> Intrinsic:
        """What sends finished sums to the output buffer."""
        config, stage = self.form.config, self.form.stage
        return requantise.raw(config) if self.form.raw else stage or requantise.requantise(config)

    def _table_loads(self) -> Iterator[tuple[str, str, Intrinsic]]:
        """A stage, the table or the operand of lanes that it reads, and what loads that."""
        form, lanes = self.form, lanes_of(self.form)
        for step in form.computation.all_steps:
            for operand, read in step.reads.items():
                if isinstance(read, FromLanes):
                    of = lanes[read.name]
                    load = dma.load(form.config, of.buffer, of.lanes, dtype=of.read.buffer.dtype)
                    yield step_name(form, step), of.parameter, load
                if isinstance(read, FromTable):
                    parameter, table = form.tables[read.name]
                    buffer = Buffer[step.intrinsic.scopes[operand].upper()]
                    load = dma.load(form.config, buffer, table.entry, dtype=table.source.dtype)
                    yield step_name(form, step), parameter, load
        if form.result_table is not None:
            parameter, table = form.result_table
            yield RESULTS, parameter, dma.load(form.config, Buffer.WGT, table.entry, dtype=table.source.dtype)

    def _load(self, name: str) -> Intrinsic:
        """What loads the window of an operand."""
        config, operand = self.form.config, self.form.streamed[name]
        match self.form.window_buffers[name]:
            case Buffer.ACC:
                return dma.load(config, Buffer.ACC, widen=True)
            case Buffer.WGT:
                return dma.load(config, Buffer.WGT, operand.lanes, dtype=operand.source.dtype)
        return dma.load(config, Buffer.INP, operand.lanes)

    @cached_property
    def extra_bytes(self) -> int:
        """Bytes that the host writes beyond those of the plain operands."""
        return sum(max(0, _packed_bytes(operand) - _plain_bytes(operand)) for operand in self.form.operands.values())


def _packed_bytes(operand: PackedOperand) -> int:
    return _nbytes(operand.shape(lambda window: operand.source.shape[window.dimension]), operand.source.dtype)


def _plain_bytes(operand: PackedOperand) -> int:
    return _nbytes(operand.source.shape, operand.source.dtype)


def _nbytes(shape: tuple[int, ...], dtype: str) -> int:
    return prod(shape) * ir.INTEGER_BITS[dtype] // 8

# SPDX-License-Identifier: Apache-2.0
"""Features in columns against a naive reading of scheduled loop nests of random operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import pytest

from vdla.compiler import ir
from vdla.compiler.arith import evaluate
from vdla.compiler.operators import definitions
from vdla.compiler.operators.vdla.operator import Operator
from vdla.compiler.operators.vdla.schedule import TileAxes
from vdla.compiler.templates import conv2d, depthwise_conv2d, pool2d
from vdla.compiler.tune import VdlaTask, expression_task, template_task
from vdla.compiler.tune.features import FEATURES
from vdla.compiler.tune.tile_nest import LEVELS, OPERANDS, TileNest
from vdla.compiler.tune.vdla_forms import MappedForm, TemplateForm
from vdla.compiler.tune.vdla_space import candidates_of, tiling_of
from vdla.hardware.config import Config


@dataclass(frozen=True)
class Nest:
    """The loops around the sums of a scheduled function, read one by one."""

    function: ir.Function
    axes: TileAxes

    @cached_property
    def path(self) -> tuple[list[ir.For], ir.Block]:
        """The loops around the block of the sums, outermost first, and the block."""
        found: list[tuple[list[ir.For], ir.Block]] = []

        def search(node: ir.Stmt, around: list[ir.For]) -> None:
            match node:
                case ir.For():
                    search(node.body, [*around, node])
                case ir.Seq():
                    for each in node.stmts:
                        search(each, around)
                case ir.Block(name="sums"):
                    found.append((around, node))
                case _:
                    pass

        search(self.function.body, [])
        (path,) = found
        return path

    @cached_property
    def loops_of(self) -> dict[str, list[ir.For]]:
        """The loops behind each axis of the sums."""
        loops, block = self.path
        found = {}
        for axis, value in zip(block.axes, block.values, strict=True):
            names = {e.name for e in ir.walk_expr(value) if isinstance(e, ir.Var)}
            found[axis.var] = [loop for loop in loops if loop.var in names]
        return found

    @cached_property
    def parts(self) -> dict[str, list[ir.For]]:
        """The loops by the names of `TileNest.extents`."""
        axes, of = self.axes, self.loops_of
        tiles = {"groups": axes.groups, "rows": axes.rows, "cols": axes.cols, "chunks": axes.chunks}
        inner = {"groups": "blocks", "rows": "lines", "cols": "pixels", "chunks": "inputs"}
        found: dict[str, list[ir.For]] = {"sections": [loop for axis in axes.sections for loop in of[axis]]}
        for name, axis in tiles.items():
            loops = of.get(axis, [])
            found[name], found[inner[name]] = loops[:-1], loops[-1:]
        found["batches"] = [loop for axis in axes.batches for loop in of[axis]]
        return found

    def extent(self, name: str, kind: ir.LoopKind = ir.LoopKind.SERIAL) -> int:
        """Iterations of the loops of a part."""
        return prod(loop.size for loop in self.parts[name] if loop.kind is kind)

    def at_level(self, level: str) -> Mapping[str, Any]:
        """The accesses in one iteration of a level: boxes of operands, instances of the block."""
        order = ("sections", "groups", "batches", "rows", "cols", "chunks", "blocks", "lines", "pixels")
        fixed = {loop.var for name in order[: LEVELS.index(level)] for loop in self.parts[name]}
        loops, block = self.path
        extents = [1 if loop.var in fixed else loop.size for loop in loops]
        grid = np.meshgrid(*(np.arange(extent) for extent in extents), indexing="ij")
        values: dict[str, Any] = {loop.var: at.ravel() for loop, at in zip(loops, grid, strict=True)}
        if block.predicate is not None:
            kept = np.broadcast_to(evaluate(block.predicate, values), values[loops[0].var].shape).astype(bool)
            values = {name: at[kept] for name, at in values.items()}
        count = len(values[loops[0].var])
        at = {axis.var: evaluate(value, values) for axis, value in zip(block.axes, block.values, strict=True)}
        assert isinstance(block.body, ir.Store)
        boxes = {block.body.buffer: _box(block.body.indices, at)}
        for load in (e for e in ir.walk_expr(block.body.value) if isinstance(e, ir.Load)):
            boxes[load.buffer] = _box(load.indices, at)
        inside = next(number for number, loop in enumerate(loops) if "tensorize" in loop.annotations)
        return {"boxes": boxes, "steps": count / prod(loop.size for loop in loops[inside:])}


def _box(indices: tuple[ir.Expr, ...], at: Mapping[str, Any]) -> int:
    """Entries in the box around all accesses; an entry is the last two dimensions."""
    found = 1
    for index in indices[:-2]:
        values = np.asarray(evaluate(index, at))
        found *= int(values.max() - values.min()) + 1
    return found


CASES = range(8)


def random_task(seed: int) -> VdlaTask:
    """An operator of any kind on a small machine."""
    rng = np.random.default_rng(seed)
    config = Config.preset(str(rng.choice(["tiny", "int4", "batch4"])))
    kernel, strides = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    inputs, outputs = (int(n) for n in rng.integers(1, 3 * config.block_in, 2))
    size = {"height": int(rng.integers(kernel, 7)), "width": int(rng.integers(kernel, 7))}
    raw, pads, batch = bool(rng.integers(2)), int(rng.integers(0, kernel)), int(rng.integers(1, 3 * config.batch))
    common = {"batch": batch, "kernel": kernel, "strides": strides, "pads": pads}
    match seed % 4:
        case 0:
            channels = {"in_channels": inputs, "out_channels": outputs}
            return template_task(conv2d, config, **common, **size, **channels, raw=raw)
        case 1:
            return template_task(depthwise_conv2d, config, **common, **size, channels=outputs, raw=raw)
        case 2:
            return template_task(pool2d, config, **common, **size, channels=outputs, kind="max")
    plain = definitions.convolution(
        **common, in_channels=inputs, out_channels=outputs, size=tuple(size.values()), raw=raw,
        dtype=config.inp_dtype, weight_dtype=config.wgt_dtype,
    )  # fmt: skip
    return expression_task(plain.output, config)


def scheduled(form: object, point: Mapping[str, Any]) -> Nest:
    """The nest of a point."""
    match form:
        case MappedForm(operator):
            return Nest(replace(operator, tiling=tiling_of(point)).function, operator.form.tile_axes)
        case TemplateForm(template, config, options):
            operator = template(config, **options, tiling=tiling_of(point))
            assert isinstance(operator, Operator)
            return Nest(operator.function, TileAxes(sections=(), groups="vco", batches=("vn",)))
    raise AssertionError(form)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", CASES)
def test_columns_equal_a_naive_reading_of_the_nest(seed: int) -> None:
    task = random_task(seed)
    (index,) = task.space.sample_indices(np.random.default_rng(seed), 1)
    point = task.space.point(index)
    form = task.forms[str(point["form"])]
    columns = TileNest(form.problem, candidates_of(task.space.columns(np.array([index]))))
    nest = scheduled(form, point)
    for name in ("sections", "groups", "batches", "rows", "cols", "chunks", "blocks", "lines", "pixels", "inputs"):
        assert columns.extents[name] == nest.extent(name), name
    over = str(point["threads_over"])
    assert nest.extent(over, ir.LoopKind.VTHREAD) == point["threads"]
    scopes = {"window": ("inp", "acc"), "weights": ("wgt",), "sums": ("acc",)}
    for level in LEVELS:
        read = nest.at_level(level)
        assert columns.steps(level) == read["steps"], level
        for operand in OPERANDS:
            buffers = [
                name for name in read["boxes"]
                if nest.function.buffers[name].scope in scopes[operand] and (operand == "sums") == (name == "sums")
            ]  # fmt: skip
            entries = sum(read["boxes"][name] for name in buffers)
            assert columns.touched(operand, level) == entries, (operand, level)


def test_every_feature_has_a_column_and_a_meaning() -> None:
    task = random_task(0)
    features = task.features(np.arange(task.space.size))
    assert features.shape == (task.space.size, len(FEATURES))
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    assert len(set(task.feature_names)) == len(FEATURES)
    assert all(feature.meaning for feature in FEATURES)


@pytest.mark.parametrize("name", ["rows", "cols", "out_blocks", "in_blocks"])
def test_the_last_tile_is_what_is_left(name: str) -> None:
    task = random_task(0)
    columns = task.space.columns(np.arange(task.space.size))
    problem = task.forms[str(columns["form"][0])].problem
    whole = list(range(getattr(problem, name)))
    tiles = [[whole[at : at + size] for at in range(0, len(whole), size)] for size in columns[name].tolist()]
    found = TileNest(problem, candidates_of(columns)).last(name)
    assert found.tolist() == [len(parts[-1]) for parts in tiles]


def test_features_of_some_points_are_rows_of_those_of_all() -> None:
    task = random_task(3)
    chosen = task.space.sample_indices(np.random.default_rng(0), 5)
    assert np.array_equal(task.features(chosen), task.features(np.arange(task.space.size))[chosen])

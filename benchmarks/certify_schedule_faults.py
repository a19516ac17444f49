# SPDX-License-Identifier: Apache-2.0
"""Planted faults in schedules and templates: wrong loop nests, and wrong options, compiled.

A wrong loop nest is what a schedule primitive that is wrong would give: a loop that is one short, a
term of an index or a predicate that is lost, stages that change places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from numpy.random import Generator

from vdla.benchmarks.certify_faults import ProgramFault
from vdla.compiler import ir, templates
from vdla.compiler.codegen.vdla import compile_function
from vdla.compiler.operators.vdla import Operator
from vdla.compiler.operators.vdla.roles import CONSTANTS
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.support.errors import Error

SCHEDULE_KINDS = (
    "loop that is one short",
    "block at another point",
    "term of an index",
    "predicate that is lost",
    "order of stages",
)
OPTION_KIND = "option of a template"
Change = Callable[[ir.Stmt], Iterator[ir.Stmt]]


def planted_schedule_faults(operator: Operator, kind: str, count: int, rng: Generator) -> Iterator[ProgramFault]:
    """At most `count` programs of wrong loop nests of a kind, of those that compile."""
    made = list(changed(operator.function.body, CHANGES[kind]))
    planted = 0
    for place in rng.permutation(len(made)):
        program = _compiled(operator, replace(operator.function, body=made[int(place)]))
        if program is not None and program.hash != operator.program.hash:
            yield ProgramFault(kind, program)
            planted += 1
        if planted == count:
            return


def _compiled(operator: Operator, function: ir.Function) -> Program | None:
    """The program of another loop nest for an operator, or None where the code generator refuses
    one that leaves its buffers.
    """
    weights = tuple(name for name in CONSTANTS if name in function.params)
    try:
        return compile_function(operator.config, function, weights, operator.dimensions)
    except (Error, ValueError, IndexError):
        return None


def changed(stmt: ir.Stmt, change: Change) -> Iterator[ir.Stmt]:
    """A loop nest with one statement changed, for every statement that can be."""
    every = list(ir.walk(stmt))
    for target in every:
        for other in change(target):
            yield ir.transform(stmt, lambda one, target=target, other=other: other if one is target else one)


def _short_loop(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    if isinstance(stmt, ir.For) and isinstance(stmt.extent, int) and stmt.extent > 1 and not stmt.annotations:
        yield replace(stmt, extent=stmt.extent - 1)


def _moved_block(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    for place, value in _values(stmt):
        for by in (1, -1):
            yield _with_value(stmt, place, ir.Binary("add", value, ir.Const(by, "int32")))


def _lost_term(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    for place, value in _values(stmt):
        if isinstance(value, ir.Binary) and value.op in ("add", "sub"):
            yield _with_value(stmt, place, value.a)
            yield _with_value(stmt, place, value.b)


def _values(stmt: ir.Stmt) -> Iterator[tuple[int, ir.Expr]]:
    yield from enumerate(stmt.values if isinstance(stmt, ir.Block) else ())


def _with_value(stmt: ir.Stmt, place: int, value: ir.Expr) -> ir.Stmt:
    assert isinstance(stmt, ir.Block)
    return replace(stmt, values=(*stmt.values[:place], value, *stmt.values[place + 1 :]))


def _lost_predicate(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    if isinstance(stmt, ir.Block) and stmt.predicate is not None:
        yield replace(stmt, predicate=None)


def _other_order(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    if isinstance(stmt, ir.Seq):
        for place in range(len(stmt.stmts) - 1):
            first, second = stmt.stmts[place : place + 2]
            yield replace(stmt, stmts=(*stmt.stmts[:place], second, first, *stmt.stmts[place + 2 :]))


CHANGES: dict[str, Change] = dict(
    zip(SCHEDULE_KINDS, (_short_loop, _moved_block, _lost_term, _lost_predicate, _other_order), strict=True)
)


# --- options --------------------------------------------------------------------------------------


def wrong_options(config: Config) -> Iterator[tuple[Operator, ProgramFault]]:
    """Operators with programs of the same template with another option, for the same tensors."""
    image: dict[str, Any] = {"batch": config.batch, "height": 4, "width": 4}
    channels = config.block_out
    two: dict[str, Any] = {**image, "in_channels": channels, "out_channels": channels}
    dense: dict[str, Any] = {"rows": config.batch, "in_features": 8, "out_features": 8}
    for template, shape, one, other in (
        (templates.conv2d, {**two, "kernel": 3}, {"pads": (1, 1, 0, 0)}, {"pads": (0, 0, 1, 1)}),
        (templates.conv2d, {**two, "kernel": 3}, {"pads": (1, 0, 1, 0)}, {"pads": (0, 1, 0, 1)}),
        (templates.conv2d, {**two, "kernel": 1}, {"zero_point": 1}, {"zero_point": 2}),
        (templates.conv2d, {**two, "kernel": 1}, {}, {"activation": "relu"}),
        (templates.conv2d, {**two, "kernel": 3, "pads": (1,) * 4}, {"input_zero_point": 1}, {"input_zero_point": 2}),
        (templates.dense, dense, {"zero_point": 3}, {"zero_point": -3}),
        (templates.dense, dense, {"activation": "relu"}, {}),
        (templates.depthwise_conv2d, {**image, "channels": channels, "kernel": 2}, {}, {"activation": "relu"}),
        (templates.pool2d, {**image, "channels": channels, "kernel": 2}, {"kind": "max"}, {"kind": "average"}),
        (templates.pool2d, {**image, "channels": channels, "kernel": 3}, {"kind": "max", "pads": (1, 0, 1, 0)},
         {"kind": "max", "pads": (0, 1, 0, 1)}),
    ):  # fmt: skip
        try:
            right, wrong = template(config, **shape, **one), template(config, **shape, **other)
            wrong_program = wrong.program
        except Error:  # such as a zero point that a machine of 4 bits has not
            continue
        if _tensors(right) == _tensors(wrong):
            yield right, ProgramFault(OPTION_KIND, wrong_program)


def _tensors(operator: Operator) -> list[tuple[str, tuple[int, ...]]]:
    return sorted((one.name, one.shape) for one in operator.program.tensors if one.data is None)

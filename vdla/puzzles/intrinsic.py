# SPDX-License-Identifier: Apache-2.0
"""An intrinsic: what it computes, and how it becomes instructions."""

from vdla.puzzles.extended import from_intrinsic, residual
from vdla.puzzles.puzzle import Puzzle

PUZZLE = Puzzle(
    name="intrinsic",
    title="An intrinsic of your own",
    task="""\
An intrinsic replaces innermost loops by instructions. It has a behaviour, which is a tensor
expression on one entry, and a `lower`, which gives the instructions. `tensorize` compares the
behaviour with the loop nest, but nobody compares `lower` with the behaviour: that is up to its
author, and to `vdla.check_intrinsic`.

The intrinsic below is the end of a residual block: it adds an activation to a sum, and takes the
positive part. Its `lower` gives the addition only. Complete it. `fold_compute` makes the loops of
a pass over all entries: `ComputeFields("acc", "x")` if it reads `x`, `ComputeFields("acc")` if it
does not.""",
    start="""\
from vdla import Intrinsic, isa, te
from vdla.intrinsics import ComputeFields, fold_compute
from vdla.isa import Operand, Source, VectorOp


def declare(config):
    entry = (config.batch, config.block_out)
    x = te.placeholder(entry, "int8", "x")
    old = te.placeholder(entry, "int32", "old")
    acc = te.compute(entry, lambda b, o: te.maximum(old[b, o] + te.cast("int32", x[b, o]), 0), "acc")
    scopes = {"x": "inp", "old": "acc", "acc": "acc"}
    return Intrinsic(name="add_relu", output=acc, scopes=scopes, lower=lower, in_place="old")


def lower(nest):
    adds = lambda fields: isa.Vector(VectorOp.ADD, Operand.SRC, Source.INP, **fields)
    yield from fold_compute(nest, ComputeFields("acc", "x"), adds)
""",
    hints=(
        "A second pass after the first: a VECTOR max with the immediate 0.",
        "`isa.Vector(OP, OPERAND, SOURCE, IMMEDIATE, **fields)`; a pass that reads no entry has Source.ACC.",
        '`isa.Vector(VectorOp.MAX, Operand.IMM, Source.ACC, 0, **fields)`, with `ComputeFields("acc")`.',
    ),
    result=residual,
    limit=385,
    best=378,
    build=from_intrinsic,
    suffix=".py",
)

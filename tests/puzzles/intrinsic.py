# SPDX-License-Identifier: Apache-2.0
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
    positive = lambda fields: isa.Vector(VectorOp.MAX, Operand.IMM, Source.ACC, 0, **fields)
    yield from fold_compute(nest, ComputeFields("acc"), positive)

# SPDX-License-Identifier: Apache-2.0
"""Macro-ops: the identity of tiles, and the units of base fields."""

from __future__ import annotations

from fractions import Fraction

import pytest

from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp, field_unit
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Emit, Gemm, Load, Operand, Source, Store, Vector, VectorOp


def test_tiles_of_one_name_differ_by_ident():
    a, b = BufferTile("x", Buffer.INP, 4), BufferTile("x", Buffer.INP, 4, 1)
    assert a != b
    assert a == BufferTile("x", Buffer.INP, 4)
    assert (str(a), str(b)) == ("x", "x#1")


def test_tiles_of_an_operation_are_listed_once():
    a, b = BufferTile("a", Buffer.ACC, 4), BufferTile("b", Buffer.ACC, 4)
    op = MacroOp(Vector(VectorOp.ADD), {"acc": (a, 0), "src": (b, 0), "out": (a, 2)})
    assert op.tiles() == (a, b)


@pytest.mark.parametrize(
    ("instruction", "name", "unit"),
    [
        (Load(Buffer.WGT), "sram", Fraction(1)),
        (Store(), "sram", Fraction(1)),
        (Gemm(), "src", Fraction(1)),
        (Gemm(), "wgt", Fraction(1)),
        (Gemm(emit=Emit.REQUANT), "out", Fraction(1)),
        (Gemm(emit=Emit.RAW), "out", Fraction(4)),
        (Vector(VectorOp.MOV, Operand.SRC, Source.ACC), "src", Fraction(1)),
        (Vector(VectorOp.MOV, Operand.SRC, Source.INP), "src", Fraction(1, 2)),
        (Vector(VectorOp.MUL, Operand.WGT), "wgt", Fraction(1, 32)),
        (Vector(VectorOp.MUL, Operand.WGT, emit=Emit.RAW), "out", Fraction(4)),
    ],
)
def test_each_base_field_counts_in_its_own_unit(instruction, name, unit):
    config = Config(block_in=32, block_out=16)
    assert field_unit(config, instruction, name) == unit


def test_a_vector_of_results_may_span_input_entries():
    config = Config(block_in=8, block_out=32)
    assert field_unit(config, Vector(VectorOp.MOV, source=Source.INP), "src") == 4


def test_raw_results_of_narrow_activations_fill_more_entries():
    assert field_unit(Config(inp_bits=2, batch=4), Gemm(emit=Emit.RAW), "out") == 16

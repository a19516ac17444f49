# SPDX-License-Identifier: Apache-2.0
"""The stage of a machine as an epilogue: schedules, the mapper, and the loads of its table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.stateful import depthwise, negated, table

import vdla
from vdla import te
from vdla.compiler.codegen.vdla.intrinsics.requantise import requantisation
from vdla.compiler.codegen.vdla.intrinsics.stage_intrinsic import stage_intrinsic
from vdla.compiler.map import MapError, candidates, why_not_staged
from vdla.compiler.tensorize import IntrinsicError
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Opcode, StagedEmit, isa_of
from vdla.hardware.numerics import pack_scale, requantise

TINY = Config.preset("tiny")
STAGED = vdla.extend(TINY, table, depthwise)
ROWS, TERMS, COLUMNS = 6, 8, 12


def layer(values=256, dtype="int8", looked_up=True, apart=False):
    """A product, requantised and looked up in a table; `apart`: in two stages."""
    x, w = te.placeholder((ROWS, TERMS), "int8", "x"), te.placeholder((COLUMNS, TERMS), "int8", "w")
    scale, held = te.placeholder((COLUMNS,), "int64", "scale"), te.placeholder((values,), dtype, "held")
    r = te.reduce_axis(TERMS, "r")
    product = lambda i, j: te.sum(te.cast("int32", x[i, r]) * te.cast("int32", w[j, r]), axis=r)  # noqa: E731
    sums = te.compute((ROWS, COLUMNS), product, "sums")

    def requantised(i, j):
        return requantisation(sums[i, j], scale[j], 0, -128, 127, "int8")

    result = te.compute((ROWS, COLUMNS), requantised, "result" if apart else "out")
    if not looked_up:
        return result
    element = (lambda i, j: result[i, j]) if apart else requantised
    return te.compute((ROWS, COLUMNS), lambda i, j: held[te.cast("int32", element(i, j)) + 128], "out")


def columns_of(program, name):
    """The rows of one instruction in a program."""
    found = isa_of(program.config)
    return program.columns[found.codes_of_columns(program.columns) == found.format_named(name).code]


@pytest.mark.parametrize("declare", [negated, table])
def test_the_instructions_compute_the_behaviour(declare):
    config = vdla.extend(TINY, declare)
    assert vdla.check_intrinsic(stage_intrinsic(config), config).programs >= 6


@pytest.mark.parametrize("apart", [False, True])
def test_a_layer_is_looked_up_on_its_way_out(apart):
    operator = candidates(layer(apart=apart), STAGED, 2).found[0]
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-128, 128, (count, TERMS)).astype(np.int8) for count in (ROWS, COLUMNS))
    scale = pack_scale(np.arange(COLUMNS), np.full(COLUMNS, 3), np.full(COLUMNS, 9))
    values = rng.permutation(256).astype(np.uint8).view(np.int8)
    result = vdla.simulate(operator.program, operator.pack(x=x, w=w, scale=scale, held=values))
    requantised = requantise(x.astype(np.int64) @ w.astype(np.int64).T, scale, 0, -128, 127, 8)
    exact = values[requantised.astype(np.int32) + 128]
    assert np.array_equal(operator.unpack(result.outputs), exact)


def test_the_table_is_loaded_once_and_before_all_results():
    program = candidates(layer(), STAGED, 2).found[0].program
    (load,) = columns_of(program, "table_load")
    assert (load[COL["loop0"]], load[COL["acc0"]], load[COL["wgt0"]]) == (64, 1, 1)
    gemms = np.flatnonzero(program.columns[:, COL["opcode"]] == Opcode.GEMM)
    assert len(gemms) > 1
    assert (program.columns[gemms, COL["emit"]] != StagedEmit.REQUANT).all()
    assert (program.columns[:, None] == load).all(axis=2).argmax() < gemms[0]
    assert vdla.verify(program).ok


def test_layers_that_are_not_looked_up_do_not_use_the_stage():
    program = candidates(layer(looked_up=False), STAGED, 2).found[0].program
    assert not len(columns_of(program, "table_load"))
    assert (program.columns[:, COL["emit"]] != StagedEmit.STAGE).all()


@pytest.mark.parametrize(
    ("output", "config", "reason"),
    [
        (layer(), TINY, "out looks results up in held, so the machine must have a stage on the way out, got none"),
        (layer(512), STAGED, "held must be an input of 256 elements of int8, got int8[512]"),
        (
            layer(),
            vdla.extend(TINY, negated),
            "out and stage negated must have one table, got held for none",
        ),
    ],
)
def test_what_the_stage_cannot_look_up_is_refused(output, config, reason):
    with pytest.raises(MapError) as error:
        candidates(output, config, 1)
    assert str(error.value).endswith(f": {reason}")


# --- arithmetic ----------------------------------------------------------------------------------


def swish(x):
    """Reads its element twice, with a division by a constant."""
    wide = te.cast("int32", x)
    return te.cast("int8", wide * te.clip(wide + 48, 0, 96) // 96)


def swished(config):
    x = te.placeholder((config.batch, config.block_out), config.out_dtype, "x")
    output = te.compute(x.shape, lambda b, o: swish(x[b, o]), "y")
    return vdla.EmitStage(name="swished", doc="Swishes.", output=output, scopes={"x": "out", "y": "out"})


VALUES = {negated: lambda x: 0 - x, swished: swish}


def computed_layer(value, apart, sums=None):
    """A product, or other sums, requantised, and a function of the results."""
    x, w = te.placeholder((ROWS, TERMS), "int8", "x"), te.placeholder((COLUMNS, TERMS), "int8", "w")
    scale, r = te.placeholder((COLUMNS,), "int64", "scale"), te.reduce_axis(TERMS, "r")
    product = lambda i, j: te.sum(te.cast("int32", x[i, r]) * te.cast("int32", w[j, r]), axis=r)  # noqa: E731
    sums = sums or te.compute((ROWS, COLUMNS), product, "sums")

    def requantised(i, j):
        return requantisation(sums[i, j], scale[j], 3, -128, 127, "int8")

    if not apart:
        return te.compute((ROWS, COLUMNS), lambda i, j: value(requantised(i, j)), "out")
    result = te.compute((ROWS, COLUMNS), requantised, "result")
    return te.compute((ROWS, COLUMNS), lambda i, j: value(result[i, j]), "out")


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("declare", [negated, swished])
@pytest.mark.parametrize(
    "plain", [TINY, replace(TINY, batch=2, inp_kib=2, acc_kib=2, out_kib=2)], ids=["tiny", "batched"]
)
def test_a_stage_of_arithmetic_is_that_of_an_expression(declare, apart, plain):
    config = vdla.extend(plain, declare)
    operator = candidates(computed_layer(VALUES[declare], apart), config, 2).found[0]
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-128, 128, (count, TERMS)).astype(np.int8) for count in (ROWS, COLUMNS))
    scale = pack_scale(np.arange(COLUMNS), np.full(COLUMNS, 3), np.full(COLUMNS, 9))
    result = vdla.simulate(operator.program, operator.pack(x=x, w=w, scale=scale))
    wide = requantise(x.astype(np.int64) @ w.astype(np.int64).T, scale, 3, -128, 127, 8).astype(np.int32)
    exact = {negated: -wide, swished: wide * np.clip(wide + 48, 0, 96) // 96}[declare].astype(np.int8)
    assert np.array_equal(operator.unpack(result.outputs), exact)
    assert (operator.program.columns[:, COL["emit"]] == StagedEmit.STAGE).any()
    assert vdla.verify(operator.program).ok


def test_sums_of_steps_go_through_a_stage_of_arithmetic():
    a, b = te.placeholder((ROWS, COLUMNS), "int8", "a"), te.placeholder((ROWS, COLUMNS), "int8", "b")
    sums = te.compute((ROWS, COLUMNS), lambda i, j: te.cast("int32", a[i, j]) + te.cast("int32", b[i, j]), "sums")
    operator = candidates(computed_layer(swish, apart=True, sums=sums), vdla.extend(TINY, swished), 1).found[0]
    rng = np.random.default_rng(1)
    given = {name: rng.integers(-128, 128, (ROWS, COLUMNS)).astype(np.int8) for name in "ab"}
    scale = pack_scale(np.zeros(COLUMNS), np.full(COLUMNS, 1), np.full(COLUMNS, 1))
    result = vdla.simulate(operator.program, operator.pack(**given, scale=scale))
    wide = requantise(given["a"].astype(np.int64) + given["b"], scale, 3, -128, 127, 8).astype(np.int32)
    assert np.array_equal(operator.unpack(result.outputs), (wide * np.clip(wide + 48, 0, 96) // 96).astype(np.int8))


def test_other_arithmetic_does_not_use_the_stage():
    config = vdla.extend(TINY, swished)
    assert candidates(layer(looked_up=False), config, 1).found[0].form.stage is None
    with pytest.raises(MapError):
        candidates(computed_layer(lambda x: 1 - x, apart=True), config, 1)
    assert why_not_staged(layer(), config) == "results must be computed as stage swished does, got others"
    assert why_not_staged(computed_layer(swish, apart=True), config) == ""


def test_a_machine_without_a_stage_has_no_such_intrinsic():
    with pytest.raises(IntrinsicError) as error:
        stage_intrinsic(TINY)
    assert str(error.value) == "stage: machine must have a stage on the way out, got none; extend it first"


def test_a_state_that_nothing_copies_from_weights_has_no_intrinsic():
    def computed(config):
        stage, load = table(config)
        (held,) = load.updates
        vector = te.placeholder((config.block_out,), config.wgt_dtype, "vector")
        twice = te.compute((config.block_out,), lambda o: vector[o] + vector[o], "twice")
        return [stage, replace(load, updates={held: twice})]

    with pytest.raises(IntrinsicError) as error:
        stage_intrinsic(vdla.extend(TINY, computed))
    assert str(error.value) == "stage table: state table must have an instruction that copies a row from wgt, got none"

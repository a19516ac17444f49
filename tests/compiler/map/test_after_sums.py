# SPDX-License-Identifier: Apache-2.0
"""Steps on finished sums: factors, slopes and tables of the lanes of results behind a product."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import vdla
from vdla import te
from vdla.compiler.interpret import interpret
from vdla.compiler.map import MapError, candidates
from vdla.compiler.operators.definitions import requantised
from vdla.hardware.config import Config
from vdla.hardware.isa import PlugInField

TINY = Config.preset("tiny")
MACHINES = {
    "tiny": TINY,
    "batched": replace(TINY, batch=2),
    "wide": replace(TINY, block_out=8),
    "narrow": replace(TINY, block_in=8),
}
RNG = np.random.default_rng(0)


def wide(value):
    return te.cast("int32", value)


# --- instructions ---------------------------------------------------------------------------------


def declared(config, name, value, in_place="old", fields=(), **operands):
    """An instruction on sums."""
    output = te.compute((config.batch, config.block_out), value, "acc")
    scopes = {**operands, "acc": "acc"}
    return vdla.Extension(
        name=name, doc="Own.", output=output, scopes=scopes, in_place=in_place, fields=list(fields), latency=2
    )


def slope(total, factor):
    return te.select(total < 0, (total * wide(factor)) >> 7, total)


def looked_up(total, shift, table, entries, terms):
    at = te.clip(total >> shift, 0, entries - 1)
    return wide(table[at // terms, at % terms])


def declare(config):
    """Instructions with an operand in each buffer, and one that writes another entry."""
    entry, last = (config.batch, config.block_out), config.block_out * config.block_in
    old = te.placeholder(entry, "int32", "old")
    vector = te.placeholder((config.block_out,), config.wgt_dtype, "vector")
    pair = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "pair")
    factor, field = te.placeholder(entry, "int32", "factor"), te.placeholder((1,), "int32", "field")
    two = lambda o: wide(pair[o, 0]) * 256 + (wide(pair[o, 1]) & 255)  # noqa: E731
    return [
        declared(config, "slope", lambda b, o: slope(old[b, o], vector[o]), old="acc", vector="wgt"),
        declared(config, "two_bytes", lambda b, o: (old[b, o] * two(o)) >> 9, old="acc", pair="wgt"),
        declared(
            config,
            "rescale",
            lambda b, o: (old[b, o] * factor[b, o]) >> field[0],
            fields=[PlugInField("field", 5, "Own.")],
            old="acc",
            factor="acc",
            field="immediate",
        ),
        declared(config, "moved", lambda b, o: old[b, o] * wide(vector[o]) + 5, in_place=None, old="acc", vector="wgt"),
        declared(
            config,
            "table",
            lambda b, o: looked_up(old[b, o], field[0], pair, last, config.block_in),
            fields=[PlugInField("field", 5, "Own.")],
            old="acc",
            pair="wgt",
            field="immediate",
        ),
    ]


# --- layers ---------------------------------------------------------------------------------------


def dense(channels):
    """A product of 37 terms: several tiles of the reduction."""
    x, w = te.placeholder((5, 37), "int8", "x"), te.placeholder((channels, 37), "int8", "w")
    k = te.reduce_axis(37, "k")
    return te.compute((5, channels), lambda n, c: te.sum(wide(x[n, k]) * wide(w[c, k]), axis=k), "total")


def convolution(channels):
    """A padded convolution of two images."""
    return vdla.definitions.convolution(
        batch=2, in_channels=6, out_channels=channels, size=(5, 4), kernel=3, pads=1
    ).output


def depthwise(channels):
    return vdla.definitions.depthwise_convolution(batch=1, channels=channels, size=(6, 5), kernel=3).output


def grouped(channels):
    """Two groups, which are sections of a program."""
    return vdla.definitions.convolution(
        batch=1, in_channels=8, out_channels=channels, size=(4, 4), kernel=1, groups=2
    ).output


LAYERS = {"dense": dense, "convolution": convolution, "depthwise": depthwise, "grouped": grouped}


def chain(config, names, sums):
    """Steps by name on sums, each a stage of its own."""
    count = sums.shape[1]
    tensors = {
        "slope": te.placeholder((count,), config.wgt_dtype, "slopes"),
        "two_bytes": te.placeholder((count, config.block_in), config.wgt_dtype, "pairs"),
        "rescale": te.placeholder((count,), "int32", "factors"),
        "moved": te.placeholder((count,), config.wgt_dtype, "weights"),
        "table": te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "entries"),
        "bias": te.placeholder((count,), "int32", "bias"),
    }
    pairs, entries = tensors["two_bytes"], tensors["table"]
    last = config.block_out * config.block_in
    steps = {
        "slope": lambda t, c: slope(t, tensors["slope"][c]),
        "two_bytes": lambda t, c: (t * (wide(pairs[c, 0]) * 256 + (wide(pairs[c, 1]) & 255))) >> 9,
        "rescale": lambda t, c: (t * tensors["rescale"][c]) >> 3,
        "moved": lambda t, c: t * wide(tensors["moved"][c]) + 5,
        "table": lambda t, c: looked_up(t, 4, entries, last, config.block_in),
        "bias": lambda t, c: t + tensors["bias"][c],
        "relu": lambda t, c: te.maximum(t, 0),
        "twice": lambda t, c: t + t,
    }
    result = sums
    for number, name in enumerate(names):
        source = result
        result = te.compute(
            sums.shape,
            lambda *at, step=steps[name], source=source: step(source[at], at[1]),
            f"stage{number}",
        )
    return result


def inputs_of(tensor):
    """The placeholders below a tensor."""
    if tensor.stage is None:
        return {tensor.name: tensor}
    return {name: read for source in tensor.stage.reads for name, read in inputs_of(source).items()}


def random_arrays(inputs):
    arrays = {}
    for name, tensor in inputs.items():
        if name == "scale":
            arrays[name] = RNG.integers(1, 5, tensor.shape) << 32 | 9 << 56 | RNG.integers(0, 100, tensor.shape)
        else:
            most = 1000 if tensor.dtype == "int32" else 128
            arrays[name] = RNG.integers(-most, most, tensor.shape).astype(tensor.dtype)
    return arrays


def require_exact(output, config, steps, most=1):
    """The first programs have these steps, are verified, and have the results of the expression."""
    inputs = inputs_of(output)
    arrays = random_arrays(inputs)
    exact = interpret(te.create_function(list(inputs.values()), [output], "exact"), arrays)[output.name]
    found = candidates(output, config).found[:most]
    for operator in found:
        assert [step.intrinsic.name for step in operator.mapping.computation.steps_after] == steps
        outcome = vdla.simulate(operator.program, operator.pack(**arrays))
        assert np.array_equal(operator.unpack(outcome.outputs), exact), operator.mapping
        assert vdla.verify(operator.program).ok
    return found[0]


CHAINS = [
    (["slope"], ["slope"]),
    (["two_bytes"], ["two_bytes"]),
    (["rescale"], ["rescale"]),
    (["moved", "relu"], ["moved", "max_inp_imm"]),
    (["table"], ["table"]),
    (["bias", "slope", "relu"], ["add_acc_src", "slope", "max_inp_imm"]),
    (["bias", "table"], ["add_acc_src", "table"]),
]


@pytest.mark.parametrize(("names", "steps"), CHAINS)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.sampled
def test_steps_on_finished_sums_are_exact(machine, layer, names, steps):
    config = vdla.extend(MACHINES[machine], declare)
    raw = (len(machine) + len(layer) + len(names)) % 2 == 0
    channels = 16 if layer == "grouped" else 7
    result = chain(config, names, LAYERS[layer](channels))
    require_exact(result if raw else requantised(result, 1)[1], config, steps)


def test_a_machine_without_extensions_has_steps_of_its_own():
    require_exact(chain(TINY, ["bias", "relu"], dense(7)), TINY, ["add_acc_src", "max_inp_imm"])


def test_sums_that_several_steps_read_are_copied_for_the_one_that_overwrites_them():
    operator = require_exact(chain(TINY, ["twice"], dense(7)), TINY, ["mov_acc_src", "add_acc_src"])
    assert operator.problem.sums == 2


def test_a_step_follows_the_last_tile_of_a_reduction():
    config = vdla.extend(TINY, declare)
    operator = candidates(chain(config, ["slope"], dense(7)), config).found[0]
    tiles = replace(operator.tiling, in_blocks=2, threads=1, threads_over="chunks", strips=1)
    text = vdla.disassemble(operator.with_tiles(tiles).program)
    names = [line.split()[0] for line in text.splitlines() if line.startswith(("gemm", "slope"))]
    assert names == [*["gemm"] * 9, "slope", "gemm", "slope"]


def test_an_element_wise_expression_has_operands_of_lanes():
    config = vdla.extend(TINY, declare)
    x, slopes = te.placeholder((3, 7), "int8", "x"), te.placeholder((7,), "int8", "slopes")
    output = te.compute((3, 7), lambda n, c: slope(wide(x[n, c]), slopes[c]), "activated")
    arrays = random_arrays({"x": x, "slopes": slopes})
    operator = candidates(output, config).found[0]
    assert [step.intrinsic.name for step in operator.mapping.computation.steps] == ["mov_inp_src", "slope"]
    wide_x = arrays["x"].astype(np.int32)
    exact = np.where(wide_x < 0, wide_x * arrays["slopes"] >> 7, wide_x)
    outcome = vdla.simulate(operator.program, operator.pack(**arrays))
    assert np.array_equal(operator.unpack(outcome.outputs), exact)


@pytest.mark.parametrize("names", [["slope"], ["two_bytes"], ["bias", "table"], ["rescale"]])
def test_programs_are_certified(names):
    config = vdla.extend(MACHINES["batched"], declare)
    for output in (chain(config, names, dense(7)), requantised(chain(config, names, convolution(5)), 1)[1]):
        vdla.certify(candidates(output, config).found[0])


# --- what is refused ------------------------------------------------------------------------------


def message(output, config):
    with pytest.raises(MapError) as error:
        candidates(output, config)
    return str(error.value)


def test_an_operation_that_no_step_has_is_refused():
    sums = dense(7)
    got = message(te.compute(sums.shape, lambda n, c: sums[n, c] // 3, "third"), TINY)
    rule = "steps on total: each operation must be one of the vector unit, on numbers up to 32767"
    assert got.endswith(f"{rule}, got total[vn, vc] // 3")


def test_sums_at_another_index_are_refused():
    sums = dense(7)
    got = message(te.compute(sums.shape, lambda n, c: sums[n, 6 - c] + 1, "turned"), TINY)
    assert got.endswith("steps on total: turned must read total at its own index, got total[vn, 6 - vc]")


def test_an_operand_that_depends_on_positions_is_refused():
    sums, bias = dense(7), te.placeholder((5, 7), "int32", "bias")
    got = message(te.compute(sums.shape, lambda n, c: sums[n, c] + bias[n, c], "biased"), TINY)
    assert "bias must have one element for each lane of results, got bias[vn, vc]" in got


def test_vectors_that_fill_no_entry_of_inputs_are_refused():
    def narrow(config):
        entry = (config.batch, config.block_out)
        old, lane = te.placeholder(entry, "int32", "old"), te.placeholder(entry, config.inp_dtype, "lane")
        return declared(config, "narrow", lambda b, o: old[b, o] * wide(lane[b, o]), old="acc", lane="inp")

    config = vdla.extend(MACHINES["narrow"], narrow)
    sums, lanes = dense(7), te.placeholder((7,), "int8", "lanes")
    got = message(te.compute(sums.shape, lambda n, c: sums[n, c] * wide(lanes[c]), "scaled"), config)
    assert "vectors of lanes must fill entries of 64 bits of the inp buffer, got 32" in got

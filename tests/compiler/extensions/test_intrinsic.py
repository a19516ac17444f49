# SPDX-License-Identifier: Apache-2.0
"""Intrinsics of extensions: schedules and the mapper use them; their instructions are exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.extensions import axpy, lut, mix, narrow, sad, tally
from helpers.plain_operators import expected, random_arrays

import vdla
from vdla import te
from vdla.compiler.extensions import Extension, ExtensionError, extension_intrinsic, machine_intrinsics
from vdla.compiler.ir import limits
from vdla.compiler.map import MapError, candidates
from vdla.compiler.operators import definitions
from vdla.compiler.tensorize import IntrinsicError
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, EXTENSION

TINY = Config.preset("tiny")
EXTENDED = vdla.extend(TINY, sad, axpy)


@pytest.mark.parametrize("declare", [lut, mix])
def test_the_instructions_compute_the_behaviour(declare):
    """Random numbers for immediates: a shift before a table, and a divisor of any kind."""
    found = vdla.check_intrinsic(extension_intrinsic(declare(TINY), TINY), vdla.extend(TINY, declare))
    assert (found.programs, found.refused) == (12, ())


def test_a_machine_without_the_extension_is_refused():
    label = EXTENDED.extensions[0].label
    with pytest.raises(vdla.Error, match=f"extension sad: machine must have {label}, got none; extend it first$"):
        vdla.check_intrinsic(extension_intrinsic(sad(TINY), TINY), TINY)


def folded(config):
    """Reads two inputs for each lane: an index that is neither an axis nor depends on data."""
    x = te.placeholder((config.batch, 2 * config.block_out), "int8", "x")
    other = lambda b, o: x[b, 2 * config.block_out - 1 - o]  # noqa: E731
    value = lambda b, o: te.cast("int32", x[b, o]) - te.cast("int32", other(b, o))  # noqa: E731
    output = te.compute((config.batch, config.block_out), value, "acc")
    return Extension(name="folded", doc="Differences.", output=output, scopes={"x": "inp", "acc": "acc"})


def test_an_operand_without_intrinsic_does_not_keep_the_others_from_being_mapped():
    with pytest.raises(IntrinsicError, match="each index of x must be one axis or a number"):
        extension_intrinsic(folded(TINY), TINY)
    assert [found.name for found in machine_intrinsics(vdla.extend(TINY, folded, lut, sad))] == ["lut", "sad"]


# --- tables --------------------------------------------------------------------------------------


def looked_up(shape, shift, last=15, value=lambda found: found):
    """out[n, m] = table[clip(x[n, m] >> shift)], over a table of 16 elements of any shape."""
    x, table = te.placeholder((6, 5), "int8", "x"), te.placeholder(shape, "int8", "table")

    def element(n, m):
        at = te.clip(te.cast("int32", x[n, m]) >> shift, 0, last)
        return value(te.cast("int32", table[at] if len(shape) == 1 else table[at // shape[1], at % shape[1]]))

    return te.compute(x.shape, element, "out")


def run(operator, **arrays):
    return operator.unpack(vdla.simulate(operator.program, operator.pack(**arrays)).outputs)


@pytest.mark.parametrize("shape", [(16,), (4, 4), (2, 8)])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_mapper_loads_a_table_once_whatever_its_shape(shape, threads):
    operator = candidates(looked_up(shape, 3), vdla.extend(TINY, lut), threads).found[0]
    rng = np.random.default_rng(0)
    x, table = rng.integers(-128, 128, (6, 5), np.int8), rng.integers(-128, 128, shape, np.int8)
    exact = table.reshape(-1)[np.clip(x >> 3, 0, 15)]
    assert str(operator.mapping).startswith("mov_inp_src + lut: b <- 1, o <- n (x = x, table = table; ")
    assert np.array_equal(run(operator, x=x, table=table), exact)


def test_sums_of_looked_up_values_are_mapped_with_their_immediates():
    x, table, k = te.placeholder((6, 3, 5), "int8", "x"), te.placeholder((16,), "int8", "t"), te.reduce_axis(3, "k")
    value = lambda n, m: te.sum(te.cast("int32", table[te.cast("int32", x[n, k, m]) & 15]) >> 2, axis=k)  # noqa: E731
    operator = candidates(te.compute((6, 5), value, "out"), vdla.extend(TINY, tally), 1).found[0]
    rng = np.random.default_rng(0)
    data, values = rng.integers(-128, 128, (6, 3, 5), np.int8), rng.integers(-128, 128, (16,), np.int8)
    exact = (values.astype(np.int32)[data & 15] >> 2).sum(axis=1)
    assert operator.mapping.intrinsic.name == "tally"
    assert np.array_equal(run(operator, x=data, t=values), exact)


@pytest.mark.parametrize(
    ("output", "got"),
    [
        (looked_up((16,), 3, last=14), "int32(table[min(max(int32(x[vn, vm]) >> 3, 0), 14)])"),
        (looked_up((16,), 40), "int32(table[min(max(int32(x[vn, vm]) >> 40, 0), 15)])"),  # not a value of the field
        (looked_up((32,), 3), "int32(table[min(max(int32(x[vn, vm]) >> 3, 0), 15)])"),
    ],
)
def test_other_tables_are_not_the_intrinsics(output, got):
    with pytest.raises(MapError) as error:
        candidates(output, vdla.extend(TINY, lut), 1)
    assert str(error.value).endswith(
        f"element-wise steps: each operation must be one of the vector unit, on numbers up to 32767, got {got}"
    )


def test_a_table_is_of_one_intrinsic():
    def half(config):
        return replace(lut(config), name="half", output=lut(config).output)

    both = looked_up((16,), 3, value=lambda found: found + found)
    assert candidates(both, vdla.extend(TINY, lut, half), 1).found


# --- weights of a step that does not accumulate --------------------------------------------------


def scaled(config):
    """acc = x w: a vector of inputs and one of weights."""
    x = te.placeholder((config.batch, config.block_out), config.inp_dtype, "x")
    w = te.placeholder((config.block_out,), config.wgt_dtype, "w")
    output = te.compute(x.shape, lambda b, o: te.cast("int32", x[b, o]) * te.cast("int32", w[o]), "acc")
    return Extension(name="scaled", doc="Scales.", output=output, scopes={"x": "inp", "w": "wgt", "acc": "acc"})


def scaled_channels():
    """The product of each channel and a weight, requantised."""
    x, w = te.placeholder((2, 10, 3), "int8", "x"), te.placeholder((10,), "int8", "w")
    sums = te.compute(x.shape, lambda n, c, i: te.cast("int32", x[n, c, i]) * te.cast("int32", w[c]), "sums")
    scale, output = definitions.requantised(sums, channels=1)
    return definitions.Definition("scaled_channels", (x, w, scale), output)


@pytest.mark.parametrize("changes", [{}, {"batch": 2, "block_out": 8, "acc_kib": 2, "inp_kib": 2}])
def test_a_step_reads_a_vector_of_weights_for_each_block_of_results(changes):
    definition, config = scaled_channels(), vdla.extend(replace(TINY, **changes), scaled)
    arrays = random_arrays(definition, np.random.default_rng(0))
    found = [each for each in candidates(definition.output, config, 2).found if each.mapping.intrinsic.name == "scaled"]
    assert found
    for operator in found[:2]:
        assert np.array_equal(run(operator, **arrays), expected(definition, arrays)), operator.description


def test_vectors_of_inputs_that_fill_no_entry_are_refused():
    config = vdla.extend(replace(TINY, block_in=8), scaled)
    refused = [each for each in candidates(scaled_channels().output, config, 1).refused if "scaled" in each.mapping]
    assert refused[0].reason == "vectors of x must fill entries of 64 bits of the input buffer, got 32"


# --- cycles --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("interval", "latency"), [(5, 3), (4, 100)])
def test_estimates_count_the_interval_and_the_latency_of_steps(interval, latency):
    machine = vdla.extend(TINY, lambda config: replace(sad(config), interval=interval, latency=latency))
    operator = candidates(differences(40, 16, 32), machine, 2).found[0].with_best_tiles(2)
    cycles = vdla.simulate(operator.program, mode="timing").statistics.total_cycles
    assert operator.least_cycles == 40 * 4 * 8 * interval
    assert abs(operator.estimate / cycles - 1) < 0.1, (operator.estimate, cycles)


# --- the mapper ----------------------------------------------------------------------------------


def differences(count, width, terms):
    """out[n, m] = sum over k of abs(a[n, k] - b[m, k])."""
    a, b = te.placeholder((count, terms), "int8", "a"), te.placeholder((width, terms), "int8", "b")
    k = te.reduce_axis(terms, "k")
    value = lambda n, m: te.sum(te.abs(te.cast("int32", a[n, k]) - te.cast("int32", b[m, k])), axis=k)  # noqa: E731
    return te.compute((count, width), value, "out")


def test_the_mapper_applies_an_extension_that_it_knows_only_by_its_declaration():
    operator = candidates(differences(6, 6, 8), EXTENDED, 1).found[0]
    assert str(operator.mapping).startswith("sad: b <- 1, o <- m, i <- k (inp = a, wgt = b")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, (6, 8)).astype(np.int8) for _ in range(2))
    result = vdla.simulate(operator.program, operator.pack(a=a, b=b))
    exact = np.abs(a[:, None].astype(np.int32) - b[None]).sum(axis=2)
    assert np.array_equal(operator.unpack(result.outputs), exact)


@pytest.mark.parametrize("shape", [{}, {"batch": 2, "inp_bits": 4, "wgt_bits": 4, "block_in": 8}])
def test_the_mapper_packs_narrow_weights_into_the_machines_bytes(shape):
    plain = replace(TINY, **shape)
    bits = plain.wgt_bits // 2
    x = te.placeholder((3, 20), plain.inp_dtype, "x")
    w = te.placeholder((6, 20), f"int{bits}", "w")
    k = te.reduce_axis(20, "k")
    product = lambda n, m: te.sum(te.cast("int32", x[n, k]) * te.cast("int32", w[m, k]), axis=k)  # noqa: E731
    operator = candidates(te.compute((3, 6), product, "out"), vdla.extend(plain, narrow), 1).found[0]
    packed = {tensor.name: tensor.dtype for tensor in operator.program.tensors}["w_packed"]
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.integers(limits(t.dtype)[0], limits(t.dtype)[1] + 1, t.shape, np.int8) for t in (x, w)}
    result = vdla.simulate(operator.program, operator.pack(**arrays))
    assert (operator.mapping.intrinsic.name, packed) == ("narrow", f"int{bits}")
    assert np.array_equal(
        operator.unpack(result.outputs), arrays["x"].astype(np.int32) @ arrays["w"].T.astype(np.int32)
    )


def padded_convolution(value):
    """out[o, y, x] over an image of 8 x 5 x 6 with a border of zeros, and 6 kernels of 3 x 3."""
    image, kernel = te.placeholder((8, 5, 6), "int8", "image"), te.placeholder((6, 8, 3, 3), "int4", "kernel")
    inside = lambda y, x: te.all_of(y >= 1, y < 6, x >= 1, x < 7)  # noqa: E731
    element = lambda c, y, x: te.select(inside(y, x), image[c, y - 1, x - 1], te.const(0, "int8"))  # noqa: E731
    padded = te.compute((8, 7, 8), element, "padded")
    c, v, u = te.reduce_axis(8, "c"), te.reduce_axis(3, "v"), te.reduce_axis(3, "u")
    term = lambda o, y, x: value(te.cast("int32", padded[c, y + v, x + u]), te.cast("int32", kernel[o, c, v, u]))  # noqa: E731
    return te.compute((6, 5, 6), lambda o, y, x: te.sum(term(o, y, x), axis=[c, v, u]), "out")


def distances(config):
    """As `narrow`, with differences, which zeros in the input change."""
    product = narrow(config)
    inp, wgt = product.output.stage.reads
    i = te.reduce_axis(2 * config.block_in, "i")
    term = lambda b, o: te.abs(te.cast("int32", inp[b, i]) - te.cast("int32", wgt[o, i]))  # noqa: E731
    output = te.compute(product.output.shape, lambda b, o: te.sum(term(b, o), axis=i), "acc")
    return replace(product, name="distances", output=output)


@pytest.mark.parametrize(
    ("declare", "value", "exact", "skips"),
    [
        (narrow, lambda a, b: a * b, lambda a, b: a * b, True),
        (distances, lambda a, b: te.abs(a - b), lambda a, b: np.abs(a - b), False),
    ],
)
def test_steps_on_padding_are_left_out_where_they_add_nothing(declare, value, exact, skips):
    operator = candidates(padded_convolution(value), vdla.extend(TINY, declare), 1).found[0]
    rng = np.random.default_rng(0)
    image, kernel = rng.integers(-128, 128, (8, 5, 6), np.int8), rng.integers(-8, 8, (6, 8, 3, 3), np.int8)
    window = np.lib.stride_tricks.sliding_window_view(np.pad(image, ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))
    terms = exact(window[None].astype(np.int32), kernel[:, :, None, None].astype(np.int32))
    result = vdla.simulate(operator.program, operator.pack(image=image, kernel=kernel))
    assert np.array_equal(operator.unpack(result.outputs), terms.sum(axis=(1, 4, 5)))
    columns = operator.program.columns
    steps = (
        columns[:, COL["loop0"]]
        * columns[:, COL["loop1"]]
        * (columns[:, COL["uop_end"]] - columns[:, COL["uop_begin"]])
    )
    taken = int(steps[columns[:, COL["opcode"]] == EXTENSION].sum())
    assert taken == 2 * (13 * 16 if skips else 5 * 6 * 9)  # blocks of results, of rows and columns without padding


def test_a_plain_machine_cannot_map_it():
    with pytest.raises(MapError, match="some intrinsic must cover the expression, got none"):
        candidates(differences(6, 6, 8), TINY, 1)


def test_a_plug_in_from_elsewhere_needs_its_extension_to_be_mapped():
    other = replace(EXTENDED.extensions[0], version=77)
    with pytest.raises(ExtensionError) as error:
        machine_intrinsics(replace(TINY, extensions=(other,)))
    rule = "must be loaded, with vdla.load_extension or --extension FILE"
    assert str(error.value) == f"{other.place}: extension {other.label} {rule}"

# SPDX-License-Identifier: Apache-2.0
"""Four-bit weights in groups on the machine, against sums in NumPy; the declaration's rules."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vdla
from vdla.compiler.extensions import LayerError, NetworkLayer, extension_of
from vdla.compiler.graph.machine.layer_call import with_results
from vdla.compiler.layer_programs import Int4Dense, placeholders
from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import Definition
from vdla.compiler.plug_ins.int4_group import declare, grouped, numbers_and_factors
from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_scale

TINY = replace(Config.preset("tiny"), inp_kib=4, wgt_kib=4, acc_kib=8, out_kib=4)
MACHINES = {"tiny": TINY, "two_rows": replace(TINY, batch=2), "pynq_z1": Config.preset("pynq_z1")}


def layer_of(rows, features, outputs, seed):
    """A dense layer with such weights, and what it reads."""
    rng = np.random.default_rng(seed)
    known = definitions.dense(rows=rows, in_features=features, out_features=outputs, raw=False)
    groups = -(-features // 32)
    factors = np.repeat(rng.integers(1, 17, (outputs, groups)), 32, 1)[:, :features]
    arrays = {
        "data": rng.integers(-128, 128, (rows, features)).astype(np.int8),
        "weight": (rng.integers(-8, 8, (outputs, features)) * factors).astype(np.int8),
    }
    lanes = pack_scale(rng.integers(-9999, 9999, outputs), rng.integers(1, 99, outputs), np.full(outputs, 14))
    return known, arrays, lanes.view(np.int64)


def run(machine, rows, features, outputs, seed, size):
    """The results of the program with tiles of `size`, and those of NumPy."""
    known, arrays, lanes = layer_of(rows, features, outputs, seed)
    given = grouped(NetworkLayer(known, arrays, {}), machine)
    constants = {item.name: item for item in placeholders(given.output) if item.name in given.constants}
    layer = Definition(known.name, (*known.inputs, *constants.values()), given.output, known.options)
    made = Int4Dense(layer, machine, size).program()
    plain = {**arrays, **given.constants, "scale": lanes}
    program = replace(made, program=with_results(made.program, (3, -100, 90)))
    result = vdla.simulate(program.program, program.pack(plain))
    sums = arrays["data"].astype(np.int64) @ arrays["weight"].astype(np.int64).T
    bias, factor = lanes.astype(np.int64) << 32 >> 32, lanes.astype(np.int64) >> 32 & 0xFFFFFF
    wanted = np.clip(np.rint((sums + bias) * factor / 2.0**14) + 3, -100, 90)
    return program.unpack(result.outputs), wanted


@settings(max_examples=12)
@given(
    machine=st.sampled_from(sorted(MACHINES)), rows=st.integers(1, 3), features=st.integers(1, 130),
    outputs=st.integers(1, 40), seed=st.integers(0, 99), size=st.sampled_from([1, 3, 16]),
)  # fmt: skip
def test_programs_have_the_results_of_numpy(machine, rows, features, outputs, seed, size):
    config = vdla.extend(MACHINES[machine], declare)
    got, wanted = run(config, rows, features, outputs, seed, size)
    np.testing.assert_array_equal(got, wanted)


@given(st.integers(0, 99), st.integers(1, 80))
def test_numbers_and_factors_are_those_of_the_weights(seed, features):
    _, arrays, _ = layer_of(1, features, 4, seed)
    numbers, factors = numbers_and_factors(arrays["weight"])
    products = (numbers * factors[..., None].astype(int)).reshape(4, -1)
    np.testing.assert_array_equal(products[:, :features], arrays["weight"])
    assert not products[:, features:].any()


def test_other_weights_are_refused():
    with pytest.raises(LayerError) as error:
        numbers_and_factors(np.full((3, 40), 101, np.int8))
    rule = "weights must be numbers of 4 bits times 1 to 16 in groups of 32"
    assert str(error.value) == f"{rule}, got others in 6 of 6 groups"


def test_a_machine_must_have_entries_of_half_a_group():
    with pytest.raises(vdla.Error, match=r"block_in must divide 16, the half of a group, got 32$"):
        vdla.extend(Config.preset("zcu104"), "int4_group")
    with pytest.raises(vdla.Error, match=r"inputs and weights must have 8 bits, got 4 and 4$"):
        vdla.extend(Config.preset("int4"), "int4_group")


def test_buffers_without_room_are_named():
    known, arrays, _ = layer_of(1, 40, 40, 0)
    machine = vdla.extend(Config.preset("tiny"), declare)
    given = grouped(NetworkLayer(known, arrays, {}), machine)
    constants = {item.name: item for item in placeholders(given.output) if item.name in given.constants}
    layer = Definition(known.name, (*known.inputs, *constants.values()), given.output, known.options)
    with pytest.raises(LayerError, match=r"^wgt must have room for 138 entries, got 64$"):
        Int4Dense(layer, machine, 16)


@pytest.mark.parametrize("name", ["int4_group_clear", "int4_group_factors"])
def test_its_other_instructions_are_described_beside_a_table_too(name):
    machine = vdla.extend(Config.preset("pynq_z1"), "int4_group", "lut")
    other = next(plug_in for plug_in in machine.extensions if plug_in.name == name)
    assert extension_of(machine, other).plug_in(machine).name == name

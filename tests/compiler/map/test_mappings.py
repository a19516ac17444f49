# SPDX-License-Identifier: Apache-2.0
"""Which mappings are legal, how they read, and why others are refused."""

import numpy as np
import pytest
from helpers.plain_operators import expected, kinds, random_arrays

from vdla.compiler import te
from vdla.compiler.map import MapError, candidates
from vdla.compiler.map.mapping import ROW_BLOCKS
from vdla.compiler.operators import definitions
from vdla.hardware.config import Config
from vdla.simulator.simulate import simulate
from vdla.simulator.timing import time_program

TINY, BATCH4 = Config.preset("tiny"), Config.preset("batch4")


def texts(definition, config):
    """The mappings of raw sums, without operands and use."""
    found = candidates(definition.output, config).found
    return {str(operator.mapping).split(" (")[0] for operator in found}


def test_kernel_positions_share_the_terms_with_channels():
    definition = definitions.convolution(batch=1, in_channels=6, out_channels=10, size=(6, 7), kernel=3)
    terms = ("c", "ky", "kx", "c x ky", "c x kx", "ky x kx", "c x ky x kx")
    as_weights = {f"gemm: b <- 1, o <- o, i <- {one}" for one in terms}
    as_data = {f"gemm: b <- 1, o <- n x y x x, i <- {one}" for one in terms}
    assert texts(definition, TINY) == as_weights | as_data


def test_rows_of_a_batch_come_from_any_axis_of_the_data():
    definition = definitions.dense(rows=5, in_features=13, out_features=9)
    expected = {
        "gemm: b <- 1, o <- n, i <- k", "gemm: b <- m, o <- n, i <- k",
        "gemm: b <- 1, o <- m, i <- k", "gemm: b <- n, o <- m, i <- k",
    }  # fmt: skip
    assert texts(definition, BATCH4) == expected


def test_a_group_is_a_section():
    definition = definitions.convolution(batch=1, in_channels=8, out_channels=12, size=(5, 6), kernel=3, groups=2)
    loops = candidates(definition.output, TINY).found[0].form.loops
    assert (loops.sections, loops.tiled, loops.taps) == (["vo_h"], ["vy", "vx"], ["vky", "vkx"])


def test_a_mapping_says_what_it_uses():
    definition = definitions.dense(rows=5, in_features=13, out_features=9)
    found = candidates(definition.output, TINY).found
    text = "gemm: b <- 1, o <- n, i <- k (inp = data, wgt = weight; 61% of the lanes used)"
    assert text in {str(operator.mapping) for operator in found}


def test_a_scale_that_rows_of_results_index_is_refused():
    definition = definitions.dense(rows=5, in_features=13, out_features=9, raw=False)
    (refused,) = (one for one in candidates(definition.output, BATCH4).refused if "gemm" in one.mapping)
    assert refused.mapping == "gemm: b <- n, o <- m, i <- k (inp = weight, wgt = data; 38% of the lanes used)"
    assert refused.reason == "scale must have one element for each lane of results, got scale[vn]"


def test_a_scale_of_positions_has_an_entry_for_each():
    definition = definitions.dense(rows=5, in_features=13, out_features=9, raw=False)
    swapped = [op for op in candidates(definition.output, TINY).found if op.mapping.groups["vo"] == ("vm",)]
    assert [tensor.shape for tensor in swapped[0].untiled.tensors if tensor.name == "scale"] == [(2, 9, 4)]


def test_a_padded_input_is_held_where_the_weights_move():
    definition = definitions.convolution(batch=1, in_channels=6, out_channels=9, size=(3, 3), kernel=3, pads=1)
    held = [op for op in candidates(definition.output, TINY).found if op.form.held.access.tensor.name == "padded"]
    arrays = random_arrays(definition, np.random.default_rng(0))
    assert held[0].form.held.access.gather.fill == 0
    outputs = simulate(held[0].program, held[0].pack(**arrays)).outputs
    assert np.array_equal(held[0].unpack(outputs), expected(definition, arrays))


def test_lanes_of_the_vector_unit_come_from_any_axis_of_the_result():
    definition = definitions.pooling(kind="max", batch=1, channels=6, size=(4, 6), kernel=2)
    groups = ("c", "y", "x", "c x y", "c x x", "y x x", "c x y x x")
    whole = {text for text in texts(definition, TINY) if "; by ky" not in text}
    assert whole == {f"max_reduce_inp: b <- 1, o <- {one}" for one in groups}


def test_a_depthwise_convolution_has_its_own_intrinsic_or_a_section_for_each_channel():
    found = candidates(kinds(TINY)["depthwise"].output, TINY).found
    loops = {operator.mapping.intrinsic.name: operator.form.loops.sections for operator in found}
    assert loops == {"mac_inp_wgt": [], "gemm": ["vc"]}


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("residual", ["product_inp_imm", "mac_in_place_inp_imm"]),
        ("rescaling", ["mov_inp_src", "add_inp_imm"]),
        ("leaky_relu", ["mov_inp_src", "add_inp_imm", "product_acc_imm", "max_acc_src"]),  # 10 x and x
    ],
)
def test_element_wise_expressions_take_the_fewest_steps(kind, steps):
    found = candidates(kinds(TINY)[kind].output, TINY).found[0]
    assert [step.intrinsic.name for step in found.form.computation.steps] == steps


def test_phases_of_a_transposed_convolution_share_a_position_of_the_window():
    definition = definitions.transposed_convolution(
        batch=1, in_channels=5, out_channels=6, size=(3, 4), kernel=4, strides=2, pads=1
    )
    loops = {tuple(operator.form.loops.phases) for operator in candidates(definition.output, TINY).found}
    assert ("vpy", "vpx") in loops


def test_windows_that_do_not_fit_are_read_in_pieces():
    found = candidates(kinds(TINY)["global_pooling"].output, TINY).found
    assert [str(operator.mapping) for operator in found] == [
        "add_reduce_inp: b <- 1, o <- c; by ky (x = data; 75% of the lanes used)"
    ]


def test_rows_of_results_are_tiled_where_few_other_axes_are():
    definition = definitions.dense(rows=9, in_features=13, out_features=9)
    found = candidates(definition.output, BATCH4).found
    tiled = {str(operator.mapping.groups["vb"]): operator.form.loops.tiled for operator in found}
    assert tiled["('vm',)"] == [None, ROW_BLOCKS]


def test_no_program_is_below_the_least_cycles_of_its_mapping():
    for kind in ("conv2d", "depthwise", "residual", "max_pooling"):
        operator = candidates(kinds(TINY)[kind].output, TINY).found[0]
        assert operator.least_cycles <= time_program(operator.program, TINY).total_cycles


# --- errors ---------------------------------------------------------------------------------------


def message(output, config=TINY):
    with pytest.raises(MapError) as error:
        candidates(output, config)
    return str(error.value)


def reasons(output):
    """The reason of each intrinsic for an expression that none covers."""
    text = message(output)
    start = f"map {output.name}: some intrinsic must cover the expression, got none; "
    assert text.startswith(start)
    each = (part.split(": ", 1) for part in text.removeprefix(start).split("; "))
    return {name: reason for names, reason in each for name in names.split(", ")}


def wide(element):
    return te.cast("int32", element)


A, B, K = te.placeholder((4, 8), "int8", "a"), te.placeholder((6, 8), "int8", "b"), te.reduce_axis(8, "k")


def test_another_value_is_refused():
    found = reasons(te.compute((4,), lambda i: te.sum(wide(A[i, K]) * 3, axis=K), "total"))
    got = "got int32(a[vi, vk]) * 3"
    assert found == {
        "gemm": f"the value must have the form int32(inp[vb, vi]) * int32(wgt[vo, vi]), {got}",
        "mac_inp_wgt": f"the value must have the form int32(x[vb, vo]) * int32(wgt[vo]), {got}",
        "add_reduce_inp": f"the value must have the form int32(x[vb, vo]), {got}",
        "max_reduce_inp": "the stage must accumulate by max from -2147483648, got sum",
        "min_reduce_inp": "the stage must accumulate by min from 2147483647, got sum",
        "element-wise steps": "the stage must be a plain computation, got a reduction",
    }


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (lambda i, j: A[i, j], "a[vi, vj]"),
        (lambda i, j: wide(A[i, j]) // 3 + 1, "int32(a[vi, vj]) // 3"),
        (lambda i, j: wide(A[i, j]) * 40_000, "int32(a[vi, vj]) * 40000"),
    ],
)
def test_an_operation_that_the_vector_unit_does_not_have_is_refused(value, got):
    found = reasons(te.compute((4, 8), value, "result"))
    rule = "each operation must be one of the vector unit, on numbers up to 32767"
    assert found["element-wise steps"] == f"{rule}, got {got}"
    assert found["gemm"] == found["max_reduce_inp"] == "the stage must be a reduction, got a plain computation"


def test_a_shared_stage_that_is_read_elsewhere_is_refused():
    stage = te.compute((4, 8), lambda i, j: wide(A[i, j]) + 1, "stage")
    found = reasons(te.compute((4, 8), lambda i, j: stage[i, j] * stage[i, 0], "result"))
    rule = "stage, which is read several times, must be read at the index of its reader"
    assert found["element-wise steps"] == f"{rule}, got stage[vi, 0]"


def test_two_sums_within_an_element_wise_expression_are_refused():
    first, second = (te.compute((4,), lambda i: te.sum(wide(A[i, K]), axis=K), name) for name in ("first", "second"))
    found = reasons(te.compute((4,), lambda i: first[i] + second[i], "result"))
    assert found["element-wise steps"] == "first must be element-wise, got another computation"


def test_an_index_that_is_not_affine_is_refused():
    wider = te.placeholder((16, 8), "int8", "wider")
    output = te.compute((4, 6), lambda i, j: te.sum(wide(wider[i * i, K]) * wide(B[j, K]), axis=K), "c")
    assert reasons(output)["gemm"] == "index 0 of wider must be affine in the axes, got vi * vi"


def test_a_computed_operand_is_refused():
    twice = te.compute((4, 8), lambda i, k: A[i, k] + A[i, k], "twice")
    output = te.compute((4, 6), lambda i, j: te.sum(wide(twice[i, K]) * wide(B[j, K]), axis=K), "c")
    got = "twice must be an input, or elements of one and a constant, got a[p0, p1] + a[p0, p1]"
    assert reasons(output)["gemm"] == got


def test_an_axis_that_no_operand_has_is_refused():
    output = te.compute((4, 8, 3), lambda i, j, k: wide(A[i, j]) + 1, "wider")
    assert message(output).endswith("axis vk must index a or be mapped, got neither")


def test_operands_of_another_type_are_refused():
    definition = definitions.dense(rows=4, in_features=8, out_features=4, dtype="int8", weight_dtype="int4")
    assert reasons(definition.output)["gemm"] == "inp, wgt must be int8, int8, got int8, int4"


def test_a_mapping_whose_tiles_fit_no_buffer_is_refused_with_their_size():
    definition = definitions.convolution(batch=1, in_channels=4, out_channels=4, size=(40, 40), kernel=(40, 40))
    refused = candidates(definition.output, TINY).refused
    text = {refusal.mapping.split(" (")[0]: refusal.reason for refusal in refused}["gemm: b <- 1, o <- o, i <- c"]
    assert text.startswith("sums: one pixel, one output block and one input block must fit the buffers inp=256 ")
    assert "got a window of 1600, 1600 weights" in text


# --- packing --------------------------------------------------------------------------------------


def test_pack_takes_exactly_the_plain_tensors():
    definition = kinds(TINY)["dense"]
    operator = candidates(definition.output, TINY).found[0]
    arrays = random_arrays(definition, np.random.default_rng(0))
    with pytest.raises(MapError) as error:
        operator.pack(data=arrays["data"])
    assert str(error.value) == "result: arrays must be given for exactly data, scale, weight, got data"


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros((5, 12), np.int8), "result: shape of data must be [5, 13], got [5, 12]"),
        (np.full((5, 13), 300), "result: elements of data must be in -128..127, got 300..300"),
        (np.zeros((5, 13)), "result: elements of data must be in -128..127, got float64"),
    ],
)
def test_pack_refuses_arrays_that_do_not_fit(array, text):
    definition = kinds(TINY)["dense"]
    operator = candidates(definition.output, TINY).found[0]
    arrays = random_arrays(definition, np.random.default_rng(0)) | {"data": array}
    with pytest.raises(MapError) as error:
        operator.pack(**arrays)
    assert str(error.value) == text


def test_the_host_is_charged_for_patches():
    definition = definitions.convolution(batch=1, in_channels=1, out_channels=4, size=(9, 9), kernel=3)
    found = candidates(definition.output, TINY).found
    patched = next(operator for operator in found if "o <- o, i <- ky x kx" in str(operator.mapping))
    assert patched.extra_bytes == 7 * 7 * 12 - 81 + 12 * 4 - 9 * 4
    assert patched.extra_cycles == patched.extra_bytes / TINY.axi_bytes

"""Which mappings are legal, how they read, and why others are refused."""

import numpy as np
import pytest
from helpers.plain_operators import kinds, random_arrays

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics.gemm import gemm
from vdla.compiler.map import MapError, candidates
from vdla.compiler.map.mapping import mappings
from vdla.compiler.operators import definitions
from vdla.hardware.config import Config

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
    form = candidates(definition.output, TINY).found[0].form
    assert (form.sections, form.tiled, form.taps) == (["vo_h"], ["vy", "vx"], ["vky", "vkx"])


def test_a_mapping_says_what_it_uses():
    definition = definitions.dense(rows=5, in_features=13, out_features=9)
    found = candidates(definition.output, TINY).found
    text = "gemm: b <- 1, o <- n, i <- k (inp = data, wgt = weight; 61% of the lanes used)"
    assert text in {str(operator.mapping) for operator in found}


def test_a_scale_that_is_not_of_the_lanes_refuses_swapped_operands():
    definition = definitions.dense(rows=5, in_features=13, out_features=9, raw=False)
    (refused,) = candidates(definition.output, TINY).refused
    assert refused.mapping == "gemm: b <- 1, o <- m, i <- k (inp = weight, wgt = data; 51% of the lanes used)"
    assert refused.reason == "scale must have one element for each lane of results, got scale[vi1]"


def test_a_padded_input_is_not_held():
    refused = candidates(kinds(TINY)["conv2d"].output, TINY).refused
    assert {refusal.reason for refusal in refused} == {"wgt must read an input as it is, got padded, which is computed"}


# --- errors ---------------------------------------------------------------------------------------


def message(output, config=TINY):
    with pytest.raises(MapError) as error:
        candidates(output, config)
    return str(error.value)


def test_another_reducer_is_refused():
    a, k = te.placeholder((4, 8), "int8", "a"), te.reduce_axis(8, "k")
    most = te.compute((4,), lambda i: te.max(te.cast("int32", a[i, k]), axis=k), "most")
    assert message(most) == (
        "map most: some intrinsic must cover the expression, got none; "
        "gemm: map most: the stage must accumulate by sum from 0, got max"
    )


def test_another_value_is_refused():
    a, k = te.placeholder((4, 8), "int8", "a"), te.reduce_axis(8, "k")
    total = te.compute((4,), lambda i: te.sum(te.cast("int32", a[i, k]), axis=k), "total")
    assert message(total) == (
        "map total: some intrinsic must cover the expression, got none; gemm: map total: the value must have the form "
        "int32(inp[vb, vi]) * int32(wgt[vo, vi]), got int32(a[vi, vk])"
    )


def test_a_plain_computation_is_refused():
    a = te.placeholder((4, 8), "int8", "a")
    assert message(te.compute((4, 8), lambda i, j: a[i, j], "copy")) == (
        "map copy: some intrinsic must cover the expression, got none; "
        "gemm: map copy: the stage must be a reduction, got a plain computation"
    )


def test_an_index_that_is_not_affine_is_refused():
    a, b = te.placeholder((16, 8), "int8", "a"), te.placeholder((6, 8), "int8", "b")
    k = te.reduce_axis(8, "k")

    def total(i, j):
        return te.sum(te.cast("int32", a[i * i, k]) * te.cast("int32", b[j, k]), axis=k)

    assert message(te.compute((4, 6), total, "c")).endswith(
        "map c: index 0 of a must be affine in the axes, got vi * vi"
    )


def test_a_computed_operand_is_refused():
    a, b = te.placeholder((4, 8), "int8", "a"), te.placeholder((6, 8), "int8", "b")
    twice = te.compute((4, 8), lambda i, k: a[i, k] + a[i, k], "twice")
    k = te.reduce_axis(8, "k")

    def total(i, j):
        return te.sum(te.cast("int32", twice[i, k]) * te.cast("int32", b[j, k]), axis=k)

    assert message(te.compute((4, 6), total, "c")).endswith(
        "map c: twice must be an input, or an input padded by a constant, got a[p0, p1] + a[p0, p1]"
    )


def test_operands_of_another_type_are_refused():
    definition = definitions.dense(rows=4, in_features=8, out_features=4, dtype="int8", weight_dtype="int4")
    assert list(mappings(definition.output, gemm(TINY))) == []


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
    assert patched.extra_bytes == 7 * 7 * 12 - 81
    assert patched.cost == patched.estimate + patched.extra_bytes / TINY.axi_bytes

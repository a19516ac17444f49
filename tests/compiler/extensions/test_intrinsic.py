"""Intrinsics of extensions: schedules and the mapper use them; their instructions are exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.extensions import axpy, lut, narrow, sad

import vdla
from vdla import te
from vdla.compiler.extensions import ExtensionError, extension_intrinsic, machine_intrinsics
from vdla.compiler.ir import limits
from vdla.compiler.map import MapError, candidates
from vdla.compiler.tensorize import IntrinsicError
from vdla.hardware.config import Config

TINY = Config.preset("tiny")
EXTENDED = vdla.extend(TINY, sad, axpy)


def test_the_instructions_compute_the_behaviour():
    found = vdla.check_intrinsic(extension_intrinsic(axpy(TINY), TINY), EXTENDED)
    assert (found.programs, found.refused) == (12, ())


def test_a_machine_without_the_extension_is_refused():
    label = EXTENDED.extensions[0].label
    with pytest.raises(vdla.Error, match=f"extension sad: machine must have {label}, got none; extend it first$"):
        vdla.check_intrinsic(extension_intrinsic(sad(TINY), TINY), TINY)


def test_a_table_has_no_intrinsic_and_does_not_keep_the_others_from_being_mapped():
    with pytest.raises(IntrinsicError, match="each index of table must be one axis"):
        extension_intrinsic(lut(TINY), TINY)
    assert [found.name for found in machine_intrinsics(vdla.extend(TINY, lut, sad))] == ["sad"]


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


def test_a_plain_machine_cannot_map_it():
    with pytest.raises(MapError, match="some intrinsic must cover the expression, got none"):
        candidates(differences(6, 6, 8), TINY, 1)


def test_a_plug_in_from_elsewhere_needs_its_extension_to_be_mapped():
    other = replace(EXTENDED.extensions[0], version=77)
    with pytest.raises(ExtensionError) as error:
        machine_intrinsics(replace(TINY, extensions=(other,)))
    rule = "must be loaded, with vdla.load_extension or --extension FILE"
    assert str(error.value) == f"{other.place}: extension {other.label} {rule}"

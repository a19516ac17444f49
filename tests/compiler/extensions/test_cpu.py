# SPDX-License-Identifier: Apache-2.0
"""Instructions of CPUs in the declaration of extensions: what they compute, where they apply."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.extensions import lut

import vdla
from vdla import te
from vdla.compiler.extensions import Extension, ExtensionError, cpu_intrinsic, cpu_intrinsics
from vdla.hardware.config import Config
from vdla.hardware.isa import PlugInField
from vdla.runtime.checks.intrinsic_check import IntrinsicMismatch

FILE = '''\
"""Four int8 by four int8 in each of eight lanes, made of what every CPU has."""

import vdla
from llvmlite import ir
from vdla import te

LANES, GROUP = 8, 4
INT = ir.IntType(32)


def chosen(builder, value, places):
    """The elements of a vector at some places."""
    mask = ir.Constant(ir.VectorType(INT, len(places)), places)
    return builder.shuffle_vector(value, ir.Constant(value.type, None), mask)


def lower(emit):
    builder = emit.builder
    x, w = (builder.EXTEND(value, ir.VectorType(INT, value.type.count)) for value in (emit.load("x"), emit.load("w")))
    products = builder.mul(chosen(builder, x, [*range(GROUP)] * LANES), w)
    total = emit.load("acc")
    for term in range(GROUP):
        total = builder.add(total, chosen(builder, products, [*range(term, LANES * GROUP, GROUP)]))
    emit.store("acc", total)


def declare(target):
    x, w = te.placeholder((GROUP,), "int8", "x"), te.placeholder((LANES, GROUP), "int8", "w")
    i = te.reduce_axis(GROUP, "i")
    product = lambda o: te.sum(te.cast("int32", x[i]) * te.cast("int32", w[o, i]), axis=i)
    acc = te.compute((LANES,), product, "acc")
    scopes = {"x": "memory", "w": "memory", "acc": "memory"}
    return vdla.Extension(name="dot4", doc="Adds products of four.", output=acc, scopes=scopes, lower=lower)
'''


def declared(folder: Path, extend: str = "sext"):
    path = folder / "dot4.py"
    path.write_text(FILE.replace("EXTEND", extend))
    (found,) = cpu_intrinsics(path)
    return found


def test_the_lowering_of_a_file_is_checked_against_its_behaviour(tmp_path):
    assert vdla.check_intrinsic(declared(tmp_path)).programs >= 12


def test_a_lowering_that_computes_something_else_is_caught(tmp_path):
    with pytest.raises(IntrinsicMismatch, match="dot4"):
        vdla.check_intrinsic(declared(tmp_path, extend="zext"))


# --- where it applies ----------------------------------------------------------------------------


def convolution(dtype="int8"):
    return vdla.definitions.convolution(batch=1, in_channels=8, out_channels=16, size=(6, 6), kernel=3).output


def rounded():
    a, b, k = te.placeholder((8, 8), "int8", "a"), te.placeholder((8, 8), "int8", "b"), te.reduce_axis(8, "k")
    value = lambda n, m: te.sum((te.cast("int32", a[n, k]) * te.cast("int32", b[m, k])) >> 1, axis=k)  # noqa: E731
    return te.compute((8, 8), value, "out")


def test_a_convolution_can_be_computed_by_it(tmp_path):
    found = vdla.applications(convolution(), declared(tmp_path))
    assert found
    assert str(found.found[0]) == "dot4: o <- o, i <- c (x = data, w = weight; 100% of the lanes used)"


def test_the_first_reason_says_why_it_does_not_apply(tmp_path):
    dot4 = declared(tmp_path)
    small = vdla.intrinsics.dot.vnni(16)
    assert vdla.applications(convolution(), small).reason == "x, w must be uint8, int8, got int8, int8"
    form = "int32(x[vi]) * int32(w[vo, vi])"
    got = "int32(a[vn, vk]) * int32(b[vm, vk]) >> 1"
    assert vdla.applications(rounded(), dot4).reason == f"the value must have the form {form}, got {got}"
    plain = te.compute((8,), lambda n: te.cast("int32", te.placeholder((8,), "int8", "a")[n]), "out")
    assert vdla.applications(plain, dot4).reason == "the stage must be a reduction, got a plain computation"
    assert not vdla.applications(plain, dot4)


# --- a what-if -----------------------------------------------------------------------------------


def permute(_):
    """A look-up of sixteen bytes at once."""
    table, x = te.placeholder((16,), "int8", "table"), te.placeholder((16,), "int32", "x")
    y = te.compute((16,), lambda o: table[x[o] & 15], "y")
    scopes = dict.fromkeys(("table", "x", "y"), "memory")
    return Extension(name="permute", doc="Looks elements up.", output=y, scopes=scopes)


def test_schedules_match_an_instruction_that_no_cpu_has_and_run_its_behaviour():
    (permuted,) = cpu_intrinsics(permute)
    table, x = te.placeholder((16,), "int8", "t"), te.placeholder((3, 16), "int32", "x")
    s = vdla.Schedule(te.create_function([table, x], [te.compute((3, 16), lambda n, o: table[x[n, o] & 15], "y")], "f"))
    s.tensorize("y", permuted)
    values, places = np.arange(16, dtype=np.int8)[::-1].copy(), np.arange(48, dtype=np.int32).reshape(3, 16)
    assert (vdla.compile(s, "host")(values, places) == values[places & 15]).all()
    rule = r"^check_intrinsic permute: this CPU must have the extension permute, got "
    with pytest.raises(vdla.Error, match=rule):
        vdla.check_intrinsic(permuted)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"fields": (PlugInField("shift", 3, ""),), "latency": 2},
            "extension permute: fields, latency must be left out in an instruction of a CPU, got them",
        ),
        (
            {"scopes": {"table": "wgt", "x": "memory", "y": "memory"}},
            "extension permute: scope of table must be one of memory, immediate, condition, got 'wgt'",
        ),
        (
            {"in_place": "table", "scopes": dict.fromkeys(("table", "x"), "memory")},
            "intrinsic permute: scopes must name",
        ),
    ],
)
def test_a_declaration_for_a_cpu_that_contradicts_itself_is_refused(changes, message):
    with pytest.raises(ExtensionError) as error:
        cpu_intrinsic(replace(permute(None), **changes))
    assert message in str(error.value)


def test_machines_and_cpus_have_their_own_instructions():
    tiny = Config.preset("tiny")
    with pytest.raises(ExtensionError, match="scope of table must be one of inp, wgt, acc, immediate, got 'memory'"):
        vdla.extend(tiny, permute)
    with pytest.raises(ExtensionError, match=r"must be one of memory, immediate, condition, got acc, immediate, wgt$"):
        cpu_intrinsic(lut(tiny))
    with pytest.raises(ExtensionError, match=r"lower must be left out in an instruction of a machine, got it$"):
        replace(lut(tiny), lower=print)

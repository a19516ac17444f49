# SPDX-License-Identifier: Apache-2.0
"""Declarations of extensions: what is refused, with the line of the user's file and the remedy."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from helpers.extensions import LUT_FIELDS, lut, narrow, pair, sad
from numba import njit

import vdla
from vdla import te
from vdla.compiler.extensions import Extension, ExtensionError, load
from vdla.compiler.ir import SCALAR_FUNCTIONS
from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, OldSum, PlugInField, Port
from vdla.simulator.function import extension_arithmetic

TINY = Config.preset("tiny")


def message_of(make):
    """What is refused, without the file and the line of this test."""
    with pytest.raises(ExtensionError) as error:
        make()
    place, _, text = str(error.value).partition(": ")
    assert place.rpartition(":")[2].isdigit()
    return text


def plug_in(**changes):
    return replace(lut(TINY), **changes).plug_in(TINY)


def computed(value, **changes):
    """A plug-in of `acc[b, o] = value(old, b, o)`."""
    old = te.placeholder((1, 4), "int32", "old")
    output = te.compute((1, 4), lambda b, o: value(old, b, o), "acc")
    scopes = {"old": "acc", "acc": "acc"}
    return Extension(
        **{"name": "own", "doc": "Own.", "output": output, "scopes": scopes, "in_place": "old", **changes}
    ).plug_in(TINY)


# --- what follows from a declaration -------------------------------------------------------------


def test_ports_follow_from_scopes_and_shapes():
    declared = lut(TINY).plug_in(TINY)
    assert (declared.old, declared.src, declared.wgt) == (OldSum.READ, None, Port("table", Buffer.WGT))
    assert (declared.accumulator_reads, declared.feeds_back) == (1, True)
    summed = sad(TINY).plug_in(TINY)
    assert (summed.old, summed.src) == (OldSum.ACCUMULATE, Port("inp", Buffer.INP))
    assert (summed.accumulator_reads, summed.feeds_back) == (1, False)


def test_a_vector_is_told_from_an_entry_by_its_shape():
    machine = replace(TINY, block_in=8)
    x = te.placeholder((1, 4), "int8", "x")
    output = te.compute((1, 4), lambda b, o: te.cast("int32", x[b, o]), "acc")
    move = Extension(name="move", doc="Moves.", output=output, scopes={"x": "inp", "acc": "acc"})
    assert move.plug_in(machine).src == Port("x", Buffer.INP, vector=True)
    assert move.plug_in(TINY).src == Port("x", Buffer.INP)


def test_views_follow_from_shapes_and_types():
    declared = narrow(TINY).plug_in(TINY)
    assert (declared.src, declared.wgt) == (Port("inp", Buffer.INP, entries=2), Port("wgt", Buffer.WGT, bits=4))
    assert pair(TINY).plug_in(TINY).wgt == Port("w", Buffer.WGT, entries=2)
    wide = replace(TINY, block_out=8)  # a vector of 8 elements is two entries of 4: one and the same
    assert narrow(wide).plug_in(wide).src == Port("inp", Buffer.INP, vector=True)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"name": "Lut"},
            "extension: name must be a lower-case identifier other than load, store, gemm, vector, sync, got 'Lut'",
        ),
        (
            {"name": "gemm"},
            "extension: name must be a lower-case identifier other than load, store, gemm, vector, sync, got 'gemm'",
        ),
        ({"doc": " "}, "extension lut: doc must say in a sentence what the instruction does, got ' '"),
        (
            {"fields": (*LUT_FIELDS, *LUT_FIELDS)},
            "extension lut: names of fields must differ, got shift twice",
        ),
        (
            {"fields": (PlugInField("acc0", 5, ""),)},
            "extension lut: name of a field must be an identifier that no compute instruction has as a field, "
            "got 'acc0'",
        ),
        (
            {"fields": (PlugInField("shift", 32, ""),)},
            "extension lut: width of shift must be an integer from 1 to 31 or name a field of loops, got 32",
        ),
        ({"fields": None}, "extension lut: fields must be a list of vdla.isa.PlugInField, got None"),
        ({"fields": "shift"}, "extension lut: fields must be a list of vdla.isa.PlugInField, got 'shift'"),
        ({"scopes": None}, "extension lut: scopes must be a dictionary by operand, got None"),
        ({"scopes": ["acc"]}, "extension lut: scopes must be a dictionary by operand, got ['acc']"),
        ({"updates": None}, "extension lut: updates must be a dictionary by operand, got None"),
        ({"program": 3}, "extension lut: program must be a function or a Python file, got 3"),
        ({"formulation": 3}, "extension lut: formulation must be a function or a Python file, got 3"),
        (
            {"datapath": 3},
            "extension lut: datapath must be SystemVerilog text, or a readable file that ends in .sv, got 3",
        ),
        ({"fields": ("shift",)}, "extension lut: fields must be of class vdla.isa.PlugInField, got 'shift'"),
        (
            {"fields": ()},
            "extension lut: immediate shift must have the name of a field, got no fields; "
            "add fields=[PlugInField('shift', bits, meaning)]",
        ),
        (
            {"fields": (*LUT_FIELDS, PlugInField("scale", 4, "A factor."))},
            "extension lut: field scale must be an operand in scope immediate, or part of interval or latency, "
            "got neither; remove it",
        ),
        ({"interval": 0}, "extension lut: interval must be at least 1, got 0"),
        ({"interval": "2 // 4"}, "extension lut: interval must be at least 1, got 2 // 4"),
        ({"latency": -1}, "extension lut: latency must be at least 0, got -1"),
        (
            {"interval": "1 + old"},
            "extension lut: interval must depend on fields of the instruction only, never on data, got old",
        ),
        (
            {"latency": "shift ** 2"},
            "extension lut: latency must be a formula of integers, fields, + - * // %, min and max, got 'shift ** 2'",
        ),
        (
            {"scopes": {"old": "acc"}},
            "extension lut: scopes must name exactly acc, old, shift, table, got old",
        ),
        (
            {"scopes": {"old": "acc", "table": "dram", "shift": "immediate", "acc": "acc"}},
            "extension lut: scope of table must be one of inp, wgt, acc, immediate, got 'dram'",
        ),
        (
            {"scopes": {"old": "acc", "table": "inp", "shift": "immediate", "acc": "acc"}},
            "extension lut: table must be int8[1, 4], or up to 8 entries side by side (a power of two) in scope inp, "
            "got int8[4, 4]",
        ),
        (
            {"scopes": {"old": "acc", "table": "wgt", "shift": "immediate", "acc": "wgt"}},
            "extension lut: scope of the output acc must be acc or inp, got 'wgt'",
        ),
        ({"in_place": "table"}, "extension lut: in_place must name an operand in acc, got 'table'"),
        ({"output": 1}, "extension lut: output must be the one tensor of a te.compute, got 1"),
    ],
)
def test_inconsistent_declarations_are_refused(changes, message):
    assert message_of(lambda: plug_in(**changes)) == message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            lambda old, b, o: old[b, old[b, o] & 7],
            "extension own: index 1 of old, old[vb, vo] & 7, must lie in 0..3 for all data, got 0..7; "
            "bound it with te.clip or & 3",
        ),
        (
            lambda old, b, o: old[b, te.maximum(old[b, o], 0) * 2 >> 31],
            "extension own: index 1 of old, max(old[vb, vo], 0) * 2 >> 31, must lie in 0..3 for all data, "
            "got -2147483648..2147483647; bound it with te.clip or & 3",
        ),
        (
            lambda old, b, o: te.cast("int32", te.exp(te.cast("float32", old[b, o]))),
            "extension own: behaviour must compute with integers of at most int64, got float32",
        ),
        (
            lambda old, b, o: 1000 // old[b, o],
            "extension own: divisor old[vb, vo] must not be 0 for any data, got -2147483648..2147483647; "
            "bound it with te.maximum or te.clip",
        ),
        (
            lambda old, b, o: old[b, o] % (te.clip(old[b, o], -4, 4) * 2),
            "extension own: divisor min(max(old[vb, vo], -4), 4) * 2 must not be 0 for any data, got -8..8; "
            "bound it with te.maximum or te.clip",
        ),
        (
            lambda old, b, o: old[b, te.popcount(old[b, o]) - 1],
            "extension own: index 1 of old, popcount(old[vb, vo]) - 1, must lie in 0..3 for all data, "
            "got -1..31; bound it with te.clip or & 3",
        ),
        (
            lambda old, b, o: old[b, te.abs(te.clip(old[b, o], -4, 3))],
            "extension own: index 1 of old, abs(min(max(old[vb, vo], -4), 3)), must lie in 0..3 for all data, "
            "got 0..4; bound it with te.clip or & 3",
        ),
    ],
)
def test_behaviours_that_no_datapath_has_are_refused(value, message):
    assert message_of(lambda: computed(value)) == message


@pytest.mark.parametrize("name", [f.name for f in SCALAR_FUNCTIONS.values() if "int32" in f.dtypes])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_every_function_of_integers_is_one_of_a_behaviour(name, dtype):
    declared = computed(lambda old, b, o: te.cast("int32", te.call(name, te.cast(dtype, old[b, o]))))
    names = {"np": np, **vars(extension_arithmetic)}
    exec(declared.kernel, names)
    step, none = njit(names["step"]), np.zeros(0, np.int8)
    for entry in np.array([[0, -1, 1, -(2**31)], [2**31 - 1, 0x5A5A5A5A, -128, 255]], np.int32):
        new = np.zeros(4, np.int32)
        step(new, entry, none, none, none, False)
        exact = SCALAR_FUNCTIONS[name].model(entry.astype(dtype)).astype(np.int32)
        assert new.tolist() == exact.tolist()


@pytest.mark.parametrize(
    "divisor",
    [
        lambda x: te.maximum(x, 1),
        lambda x: te.clip(x, -9, -2),
        lambda x: te.abs(te.clip(x, -9, 9)) + 1,
        lambda x: (x & 7) + 1,
        lambda x: te.const(0, "int32"),  # no data: a constant that gives 0
    ],
)
def test_divisors_that_are_never_0_are_accepted(divisor):
    assert computed(lambda old, b, o: 1000 // divisor(old[b, o]) + old[b, o]).name == "own"


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("int8", (4, 12)), ("int8", (4, 64)), ("int4", (4, 4)), ("int4", (8, 4)), ("uint8", (4, 4)), ("int8", (2, 8))],
)
def test_weights_that_are_no_view_of_whole_entries_are_refused(dtype, shape):
    w = te.placeholder(shape, dtype, "w")
    output = te.compute((1, 4), lambda b, o: te.cast("int32", w[0, o]), "acc")
    made = Extension(name="odd", doc="Odd.", output=output, scopes={"w": "wgt", "acc": "acc"})
    assert message_of(lambda: made.plug_in(TINY)) == (
        "extension odd: w must be int8[4, 4] or int8[4], or up to 8 entries side by side (a power of two), "
        f"or the same bits as narrower elements in scope wgt, got {dtype}{list(shape)}"
    )


def test_more_operands_than_indices_are_refused():
    x, y = (te.placeholder((1, 4), "int8", name) for name in "xy")
    output = te.compute((1, 4), lambda b, o: te.cast("int32", x[b, o]) + te.cast("int32", y[b, o]), "acc")
    two = Extension(name="two", doc="Adds.", output=output, scopes={"x": "inp", "y": "inp", "acc": "acc"})
    assert message_of(lambda: two.plug_in(TINY)) == (
        "extension two: at most one operand can be indexed by src, got x and y; "
        "in_place makes one of the accumulator's the old value"
    )


# --- files ---------------------------------------------------------------------------------------

FILE = """\
import vdla
from vdla import te


def declare(config):
    x = te.placeholder((config.batch, config.block_out), "int8", "x")
    output = te.compute(x.shape, lambda b, o: te.cast("int32", x[b, o]) * 3, "acc")
    return vdla.Extension(name="triple", doc="Triples.", output=output, scopes={"x": "inp", "acc": "acc"})
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "triple.py"
    path.write_text(text)
    return path


class Declares:
    """An object that is called as a function."""

    def __call__(self, config):
        return lut(config)


def named(name, config):
    return replace(lut(config), name=name)


@pytest.mark.parametrize(("declare", "name"), [(partial(named, "table"), "table"), (Declares(), "lut")])
def test_whatever_can_be_called_declares(declare, name):
    [plug_in] = vdla.extend(TINY, declare).extensions
    assert plug_in.name == name


def test_a_file_extends_a_machine(tmp_path):
    config = vdla.extend(TINY, written(tmp_path, FILE))
    assert [found.name for found in config.extensions] == ["triple"]
    assert config.extensions[0].place == f"{tmp_path / 'triple.py'}:8"
    assert [found.name for found in vdla.extend(config, lut).extensions] == ["triple", "lut"]
    assert Config.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('"triple"', '"store"', 8, "extension: name must be a lower-case identifier other than load, store"),
        (
            "(config.batch, ",
            "(2, ",
            8,
            "extension triple: x must be int8[1, 4], or up to 8 entries side by side (a power of two) in scope inp, "
            "got int8[2, 4]",
        ),
        ("x[b, o]", "x[b, o + 4]", 7, "te.compute acc: index 1 of x must satisfy 0 <= index < 4, got 4 to 7"),
        ("config.batch", "config.bacth", 6, "AttributeError: 'Config' object has no attribute 'bacth'"),
        ("return vdla", "return (vdla", 8, "file must be Python, got a syntax error: '(' was never closed"),
        (
            "return vdla.Ext",
            "vdla.Ext",
            5,
            "declare must return a vdla.Extension, a vdla.EmitStage or a list of them, got None",
        ),
        ("def declare", "def declared", 1, "file must have a function declare(config), got none"),
    ],
)
def test_errors_name_the_line_of_the_file(tmp_path, old, new, line, message):
    path = written(tmp_path, FILE.replace(old, new))
    with pytest.raises(ExtensionError) as error:
        vdla.extend(TINY, path)
    assert str(error.value).startswith(f"{path}:{line}: {message}")


def test_a_name_that_is_nearly_one_of_a_plug_in_is_answered_with_that():
    with pytest.raises(ExtensionError) as error:
        vdla.extend(TINY, "transpos")
    assert str(error.value).endswith(f"or one of {', '.join(load.shipped())}, got transpos (did you mean transpose?)")


@pytest.mark.parametrize("source", ["nothing.py", "nothing"])
def test_sources_that_do_not_exist_are_refused(source):
    with pytest.raises(ExtensionError) as error:
        vdla.extend(TINY, source)
    rule = f"source must be a file that ends in .py or one of {', '.join(load.shipped())}, got {source}"
    assert str(error.value) == f"extension: {f'{source}: no such file' if source.endswith('.py') else rule}"


@pytest.fixture
def installed(monkeypatch):
    """Makes an entry point of a value known, as an installed package does."""

    def known(value):
        entry = EntryPoint("mine", value, load.ENTRY_POINTS)
        monkeypatch.setattr(load, "entry_points", lambda **_: [entry])

    return known


def test_an_entry_point_names_a_declaration(installed):
    installed("helpers.extensions:lut")
    assert [found.name for found in vdla.extend(TINY, "mine").extensions] == ["lut"]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("absent_package:declare", "must load, got ModuleNotFoundError: No module named 'absent_package'"),
        (
            "helpers.extensions:absent",
            "must load, got AttributeError: module 'helpers.extensions' has no attribute 'absent'",
        ),
        ("string:digits", "must be a function declare(config), got '0123456789'"),
    ],
)
def test_an_entry_point_that_gives_no_declaration_is_refused(installed, value, rule):
    installed(value)
    with pytest.raises(ExtensionError) as error:
        vdla.extend(TINY, "mine")
    assert str(error.value) == f"extension mine: entry point {value} {rule}"


def test_a_function_that_declares_something_else_is_asked_again():
    """As in a notebook, in which a cell with a constant is changed and executed again."""
    latencies = [2]

    def declare(config):
        return replace(sad(config), latency=latencies[-1])

    first = vdla.extend(TINY, declare)
    assert load.extension_of(first, first.extensions[0]).latency == 2
    latencies.append(5)
    second = vdla.extend(TINY, declare)
    assert first.extensions != second.extensions
    assert load.extension_of(second, second.extensions[0]).latency == 5


def test_functions_take_the_arguments_that_they_get(tmp_path):
    def declare(config, width):
        return lut(config)

    rule = "declare must take the configuration of a machine and nothing else"
    got = "got declare(config, width) (missing a required argument: 'width')"
    with pytest.raises(ExtensionError) as error:
        vdla.extend(TINY, declare)
    assert str(error.value) == f"{__file__}:{declare.__code__.co_firstlineno}: {rule}, {got}"
    (tmp_path / "layers.py").write_text("def program(layer):\n    return []\n")
    path = written(tmp_path, FILE.replace("scopes=", 'program="layers.py", scopes='))
    config = vdla.extend(TINY, path)
    rule = "program must take a layer and the configuration of a machine and nothing else"
    with pytest.raises(ExtensionError) as error:
        load.program_of(load.extension_of(config, config.extensions[0]))
    assert str(error.value) == f"{tmp_path}/layers.py:1: {rule}, got program(layer) (too many positional arguments)"

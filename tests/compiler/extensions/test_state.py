# SPDX-License-Identifier: Apache-2.0
"""Declarations with private state and a stage on the way out: what follows, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.stateful import depthwise, running, table

import vdla
from vdla import te
from vdla.compiler.extensions import ExtensionError
from vdla.hardware.config import Config, ConfigError
from vdla.hardware.isa import OldSum, PlugInState, StatePort

TINY = Config.preset("tiny")
EXTENDED = vdla.extend(TINY, table, depthwise)


def message_of(declare):
    """What is refused, without the file and the line of this test."""
    with pytest.raises(ExtensionError) as error:
        vdla.extend(TINY, declare)
    place, _, text = str(error.value).partition(": ")
    assert place.rpartition(":")[2].isdigit()
    return text


# --- what follows from a declaration -------------------------------------------------------------


def test_states_take_the_indices_that_operands_leave():
    load, step, taps, clear = EXTENDED.extensions
    held = PlugInState("table", "table", 64, (4,), "int8")
    assert load.states == (StatePort(held, "acc", None, writes=True),)
    assert (load.old, load.accumulator_reads, load.feeds_back) == (OldSum.UNTOUCHED, 0, False)
    assert [(port.state.label, port.index, port.operand, port.whole, port.writes) for port in step.states] == [
        ("dw.taps", None, "w", True, False),
        ("dw.line", "wgt", "above", False, True),
        ("dw.window", None, "left", False, True),
    ]
    assert [port.index for port in (*taps.states, *clear.states)] == ["acc", "acc", None]


def test_the_stage_of_a_machine_reads_its_state_whole():
    stage = EXTENDED.stage
    held = PlugInState("table", "table", 64, (4,), "int8")
    assert (stage.name, stage.operand, stage.latency) == ("table", "x", 2)
    assert stage.states == (StatePort(held, None, "rows", whole=True),)
    assert EXTENDED.plain == TINY


def test_a_machine_with_state_survives_json():
    assert Config.from_dict(EXTENDED.to_dict()) == EXTENDED
    assert EXTENDED.to_dict()["stage"] == EXTENDED.stage.label
    assert "stage" not in TINY.to_dict()


# --- refusals ------------------------------------------------------------------------------------

COUNT = vdla.State("count", 8, (4,), "int32")
ROW = te.placeholder((4,), "int32", "row")
ONE_MORE = te.compute((4,), lambda o: ROW[o] + 1, "one_more")


X = te.placeholder((1, 8), "int8", "x")
WIDE = te.compute((1, 8), lambda b, o: X[b, o], "y")


def counter(**changes):
    """A declaration of an instruction that counts in rows of a state."""
    fields = {"name": "count", "doc": "Counts.", "scopes": {"row": COUNT}, "updates": {COUNT: ONE_MORE}, **changes}
    return lambda config: vdla.Extension(**fields)


def reading(*states):
    """A declaration of an instruction that reads a row of each state, an input and a weight."""

    def declare(config):
        x, w = te.placeholder((1, 4), "int8", "x"), te.placeholder((4,), "int8", "w")
        rows = [te.placeholder((4,), "int32", f"row{n}") for n in range(len(states))]
        value = lambda b, o: te.cast("int32", x[b, o] + w[o]) + sum(r[o] for r in rows)  # noqa: E731
        output = te.compute((1, 4), value, "acc")
        scopes = {"x": "inp", "w": "wgt", "acc": "acc"} | {row.name: s for row, s in zip(rows, states, strict=True)}
        return [vdla.Extension(name="read", doc="Reads.", output=output, scopes=scopes), counter()(config)]

    return declare


def staged(config, **changes):
    stage, load = table(config)
    return [replace(stage, **changes), load]


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            counter(scopes={"row": vdla.State("count", 8, (4,), "int32")}),
            "states of a declaration must differ in name, got count twice",
        ),
        (
            counter(scopes={"row": vdla.State("other", 8, (4,), "int32")}),
            "state other must be written by an instruction of the declaration, got none; add updates={other: ...}",
        ),
        (
            counter(scopes={"row": COUNT}, updates={COUNT: te.compute((8, 4), lambda r, o: ROW[o], "all_rows")}),
            "extension count: update of count must be one row, got all rows",
        ),
        (
            counter(updates={COUNT: te.compute((3,), lambda o: ROW[o], "short")}),
            "extension count: short must be int32[4] or int32[8, 4] of state count, got int32[3]",
        ),
        (
            counter(updates={"count": ONE_MORE}),
            "extension count: updates must be of class vdla.State, got 'count'",
        ),
        (
            counter(in_place="row"),
            "extension count: in_place must be None without an output, got 'row'",
        ),
        (
            counter(updates={}),
            "extension count: output must be the one tensor of a te.compute, got None",
        ),
        (
            reading(COUNT),
            "extension read: state count must have an index register that no other operand uses, "
            "got none of acc, src and wgt left",
        ),
        (
            lambda config: [],
            "declare must return a vdla.Extension, a vdla.EmitStage or a list of them, got []",
        ),
        (
            lambda config: [counter()],
            "declare must return a vdla.Extension, a vdla.EmitStage or a list of them, got <function ",
        ),
        (
            lambda config: [counter()(config), counter()(config)],
            "names in a declaration must differ, got count twice",
        ),
        (
            lambda config: [*table(config), replace(table(config)[0], name="second")],
            "a machine can have one stage on the way out, got table and second",
        ),
        (
            lambda config: staged(config, latency=-1),
            "stage table: latency must be an integer of at least 0, got -1",
        ),
        (
            lambda config: staged(config, scopes={"x": "out", "y": "out"}),
            "stage table: scopes must name exactly rows, x, y, got x, y",
        ),
        (
            lambda config: staged(config, scopes={"x": "inp", "rows": COUNT, "y": "out"}),
            "stage table: scope of x must be out or a State, got 'inp'",
        ),
        (
            lambda config: staged(config, scopes={"x": COUNT, "rows": COUNT, "y": "out"}),
            "stage table: scope out must be that of one operand and of y, got y",
        ),
        (
            lambda config: table(replace(config, block_out=8))[0],
            "state table must be written by an instruction of the declaration, got none; add updates={table: ...}",
        ),
        (
            lambda config: staged(config, output=WIDE, scopes={"x": "out", "y": "out"}),
            "stage table: x must be int8[1, 4] in scope out, got int8[1, 8]",
        ),
    ],
)
def test_inconsistent_declarations_are_refused(declare, message):
    assert message_of(declare).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Count", 8, (4,), "int32"), "state: name must be a lower-case identifier, got 'Count'"),
        (("count", 0, (4,), "int32"), "state count: rows must be a positive integer, got 0"),
        (("count", 8, (0,), "int32"), "state count: shape must be positive integers, got (0,)"),
        (("count", 8, (4,), "int64"), "state count: dtype must be an integer of at most 32 bits, got 'int64'"),
    ],
)
def test_states_that_no_machine_can_hold_are_refused(arguments, message):
    with pytest.raises(ExtensionError) as error:
        vdla.State(*arguments)
    assert str(error.value).partition(": ")[2] == message


def test_more_rows_than_an_index_reaches_are_refused():
    many = vdla.State("many", 65, (4,), "int32")
    declare = counter(scopes={"row": many}, updates={many: ONE_MORE})
    assert message_of(declare) == ("extension count: state many must have at most 64 rows, which acc can index, got 65")


def test_a_second_stage_of_another_declaration_is_refused():
    def other(config):
        stage, load = table(config)
        return [replace(stage, name="other"), replace(load, name="other_load")]

    with pytest.raises(ExtensionError) as error:
        vdla.extend(EXTENDED, other)
    assert str(error.value).endswith(": a machine can have one stage on the way out, got table and other")


def test_a_machine_keeps_the_instructions_that_write_its_states():
    with pytest.raises(ConfigError) as error:
        replace(EXTENDED, extensions=())
    assert str(error.value) == (
        "config tiny: extension table must have an instruction that writes its state table, got none; "
        "Config.plain is the machine without extensions"
    )


def test_the_names_of_extensions_and_stages_differ():
    single = vdla.extend(TINY, running)
    twice = (*single.extensions, replace(single.extensions[0], unit="second"))
    with pytest.raises(ConfigError) as error:
        replace(single, extensions=twice)
    assert str(error.value) == "config tiny: names of extensions must differ, got run twice"

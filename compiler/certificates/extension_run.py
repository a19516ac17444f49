# SPDX-License-Identifier: Apache-2.0
"""Steps of extensions, and the stage on the way out, on symbols: their declared behaviour itself.

The steps of an instruction run one after the other, since a step may read what the one before
wrote. Private state is unknown before the program writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.certificates.compute_steps import ComputeSteps
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.operations import binary
from vdla.compiler.certificates.pending import PendingProducts
from vdla.compiler.certificates.symbols import CertificateError, Symbols, gathered, numbers, unknowns
from vdla.compiler.extensions.behaviour import reducer_of
from vdla.compiler.extensions.emit_stage import EmitStage
from vdla.compiler.extensions.extension import Extension
from vdla.compiler.extensions.load import extension_of, unit_with_stage
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import EXTENSION_COLUMN, OldSum, PlugIn, PlugInState, Port, StatePort, isa_of

_Row = Mapping[str, int]
_Array = npt.NDArray[Any]
_COMBINED = {"sum": "add", "max": "max", "min": "min"}


class ExtensionRun:
    """The private states of a machine, and the steps that use them and the buffers."""

    def __init__(self, config: Config, products: PendingProducts, acc: Symbols, looks_up: bool) -> None:
        self._config, self._products, self._acc, self._looks_up = config, products, acc, looks_up
        self._states: dict[PlugInState, Symbols] = {}

    def run(self, columns: list[int], row: _Row, steps: ComputeSteps) -> None:
        """All steps of an instruction, without what it emits."""
        plug_in = self._config.extensions[columns[EXTENSION_COLUMN]]
        extension = _declared(self._config, plug_in)
        fields = isa_of(self._config).col
        known = {field.name: numbers([columns[fields[f"{plug_in.name}.{field.name}"]]]) for field in plug_in.fields}
        for place in range(len(steps.acc)):
            indices = {name: int(getattr(steps, name)[place]) for name in ("acc", "src", "wgt")}
            self._step(extension, plug_in, known, indices, bool(steps.starts[place]))

    def staged(self, entries: Symbols) -> Symbols:
        """Requantised entries, `[entries, lanes]`, behind the stage on the way out.

        If they are looked up, those of a function of one element are elements of its table.
        """
        table = _results_of_stage(self._config) if self._looks_up else None
        if table is not None:
            return _elements(self._config.out_dtype, table, entries)
        stage = self._config.stage
        assert stage is not None
        states = {port.operand: self._state(port.state) for port in stage.states if port.operand is not None}
        of_all = _of_all_entries(self._config, len(entries))
        if of_all is not None:
            return _output(of_all, {**states, stage.operand: entries}).reshape(entries.shape)
        behaviour = _stage_of(self._config).behaviour
        made = [_output(behaviour, {**states, stage.operand: entry}) for entry in entries]
        return np.stack([one.reshape(-1) for one in made])

    def _step(
        self, extension: Extension, plug_in: PlugIn, known: Mapping[str, Symbols], at: Mapping[str, int], starts: bool
    ) -> None:
        operands = dict(known)
        for name, port in plug_in.ports.indexed:
            operands[port.operand] = self._entries(port, at[name])
        if extension.in_place is not None:
            operands[extension.in_place] = self._acc[at["acc"]]
        for held in plug_in.states:
            if held.operand is not None:
                rows = self._state(held.state)
                operands[held.operand] = rows if held.whole else rows[_place(held, at)]
        outputs = _outputs(extension.behaviour, operands)
        for state, tensor in extension.updates.items():
            (held,) = (one for one in plug_in.states if one.writes and one.state.name == state.name)
            self._state(held.state)[_place(held, at)] = outputs[tensor.name].reshape(-1)
        if extension.output is not None:
            self._write(plug_in, extension, at["acc"], outputs[extension.output.name].reshape(-1), starts)

    def _write(self, plug_in: PlugIn, extension: Extension, place: int, result: Symbols, starts: bool) -> None:
        if plug_in.writes_inputs:
            inputs = self._products.inputs
            self._products.write(inputs, place, result.reshape(1, *inputs.now.shape[1:]))
            return
        if plug_in.old is OldSum.ACCUMULATE and not starts:
            result = binary(_COMBINED[reducer_of(extension.output)], self._acc[place], result, "int32")
        self._acc[place] = result

    def _entries(self, port: Port, index: int) -> Symbols:
        if port.bits is not None:
            rule = "operands of extensions must be elements of their buffers"
            raise CertificateError(f"certify: {rule}, got {port.operand} of {port.bits} bits")
        if port.buffer is Buffer.ACC:
            return gathered(self._acc, np.array(index))
        entries = (self._products.inputs if port.buffer is Buffer.INP else self._products.weights).now
        size = self._config.block_out if port.vector else int(np.prod(entries.shape[1:])) * port.entries
        if port.vector and port.buffer is Buffer.INP:
            size *= self._config.batch
        return gathered(entries.reshape(-1, size), np.array(index))

    def _state(self, state: PlugInState) -> Symbols:
        """The rows of a state, `[rows, elements]`."""
        if state not in self._states:
            shape, name = (state.rows, state.elements), f"before the program: {state.label}"
            self._states[state] = unknowns(name, shape, state.dtype, 0)
        return self._states[state]


def _place(held: StatePort, at: Mapping[str, int]) -> int:
    """The row of a state that a step uses."""
    return 0 if held.index is None else at[held.index]


def _outputs(behaviour: ir.Function, operands: Mapping[str, Symbols]) -> dict[str, Symbols]:
    """What a behaviour computes of its operands, in its shapes."""
    given = {
        name: operands[name].reshape(behaviour.buffers[name].dims)
        for name in behaviour.params
        if name not in ir.output_names(behaviour)
    }
    return evaluate(behaviour, given)


def _output(behaviour: ir.Function, operands: Mapping[str, Symbols]) -> Symbols:
    return next(iter(_outputs(behaviour, operands).values()))


@lru_cache(maxsize=8)
def _stage_of(config: Config) -> EmitStage:
    """The declaration of the stage of a machine."""
    assert config.stage is not None
    declared = unit_with_stage(config, config.stage).stage
    assert declared is not None
    return declared


@lru_cache(maxsize=64)
def _of_all_entries(config: Config, count: int) -> ir.Function | None:
    """The behaviour of a stage for so many entries, each with the same states; None where it has
    several steps.
    """
    assert config.stage is not None
    declared, operand = _stage_of(config), config.stage.operand
    body = declared.output.stage
    assert isinstance(body, Stage)
    if any(tensor.stage is not None for tensor in body.reads):
        return None
    tensors = tuple(
        te.placeholder((count, *tensor.shape), tensor.dtype, operand) if tensor.name == operand else tensor
        for tensor in body.reads
    )

    def value(entry: te.Value, *at: te.Value) -> te.Value:
        places = {axis_name(axis): place.expr for axis, place in zip(body.axes, at, strict=True)}
        expr = _of_entry(ir.substitute(body.value.expr, places), operand, entry.expr)
        return te.Value(expr, body.value.dtype, tensors=tensors)

    result = te.compute((count, *declared.output.shape), value, declared.output.name)
    return te.create_function(list(tensors), [result], declared.name)


def _of_entry(expr: ir.Expr, operand: str, entry: ir.Expr) -> ir.Expr:
    """`expr` with the operand's elements in one of several entries."""
    mapped = ir.map_operands(expr, lambda part: _of_entry(part, operand, entry))
    if isinstance(mapped, ir.Load) and mapped.buffer == operand:
        return ir.Load(operand, (entry, *mapped.indices))
    return mapped


@lru_cache(maxsize=8)
def _results_of_stage(config: Config) -> _Array | None:
    """What the stage of a machine computes of each value, the least one first; None if it has
    states, or computes results of more than the element at their place.
    """
    assert config.stage is not None
    declared = _stage_of(config)
    value = declared.output.stage
    assert isinstance(value, Stage)
    places = tuple(ir.Var(axis_name(axis)) for axis in value.axes)
    loads = [e for e in ir.walk_expr(value.value.expr) if isinstance(e, ir.Load)]
    in_loads = sum(len(load.indices) for load in loads)
    in_all = sum(isinstance(e, ir.Var) for e in ir.walk_expr(value.value.expr))
    if config.stage.states or in_all != in_loads or any(load.indices != places for load in loads):
        return None
    low, high = map(int, ir.limits(config.out_dtype))
    shape = declared.output.shape
    entries = (numbers(np.full(shape, at)) for at in range(low, high + 1))
    return np.array([_output(declared.behaviour, {config.stage.operand: entry}).flat[0]["low"] for entry in entries])


def _elements(dtype: str, table: _Array, entries: Symbols) -> Symbols:
    """The elements of a table at values, the least of which has its first one."""
    data, content = te.placeholder(entries.shape, dtype, "data"), te.placeholder(table.shape, dtype, "table")
    least = int(ir.limits(dtype)[0])
    result = te.compute(entries.shape, lambda *at: content[te.cast("int32", data[at]) - least], "elements")
    function = te.create_function([data, content], [result], "look_up")
    return evaluate(function, {"data": entries, "table": numbers(table)})["elements"]


@lru_cache(maxsize=64)
def _declared(config: Config, plug_in: PlugIn) -> Extension:
    return extension_of(config, plug_in)

# SPDX-License-Identifier: Apache-2.0
"""Programs of extensions, and the templates before them, that are chosen as a chain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vdla.compiler.extensions import extend
from vdla.compiler.extensions.load import extension_of
from vdla.compiler.graph.accelerator import ACCELERATED, REGION, OperatorCall
from vdla.compiler.layer_programs import written_programs
from vdla.compiler.operators.definitions import depthwise_convolution
from vdla.compiler.operators.vdla import WrittenOperator
from vdla.compiler.operators.vdla.roles import OUTPUT
from vdla.compiler.templates import conv2d
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.network.neighbour_choice import NeighbourChoice, _chain
from vdla.simulator.timing import time_program

DEPTHWISE = Path(__file__).parents[3] / "examples" / "depthwise" / "depthwise.py"


def call(operator: Any, parameter: str) -> OperatorCall:
    """The call of an operator; layouts are of no matter here."""
    nothing: Any = None
    return OperatorCall(operator=operator, inputs={parameter: ("value", nothing)}, constants={}, output=nothing)


def programs(machine: Config, size: int, channels: int) -> list[OperatorCall]:
    """The programs of a layer of stride 2 that read images as templates leave them, the fastest
    one first.
    """
    sizes: dict[str, Any] = {"size": (size, size), "kernel": 3, "strides": 2, "pads": 1}
    layer = depthwise_convolution(batch=1, channels=channels, **sizes, raw=False, fill=0)
    declared = [extension_of(machine, plug_in) for plug_in in machine.extensions]
    made: list[Program] = [item.program for item in written_programs(declared[:1], layer, machine)[0].programs]
    result = []
    for program in made:
        tensors = [replace(t, name=str(OUTPUT)) if t.role == "output" else t for t in program.tensors]
        if next(t for t in tensors if t.name == "pixels").shape[2] == size:
            cycles = time_program(program).total_cycles
            written = WrittenOperator("dw", replace(program, tensors=tuple(tensors)), 0, cycles, ("dw",))
            result.append(call(written, "pixels"))
    return sorted(result, key=lambda one: one.operator.estimated_cycles if one.operator else 0)


def test_a_layer_begins_while_the_rows_behind_are_made() -> None:
    """Then the template makes all channels of few rows at a time."""
    sizes: dict[str, Any] = {"height": 112, "width": 112, "kernel": 1}
    machine = extend(Config.preset("pynq_z1"), DEPTHWISE)
    expand = conv2d(machine, batch=1, in_channels=16, out_channels=64, **sizes, chained=True)
    others, first = programs(machine, 112, 64), call(expand, "data")
    choice: Any = NeighbourChoice(SimpleNamespace(time=time_program))  # type: ignore[arg-type]
    operator, number = choice._tried(first, others[0], others, None)
    assert operator.tiling.out_blocks == 4
    alone, together = (
        time_program(_chain(*pair, None)).total_cycles
        for pair in ((first, others[0]), (replace(first, operator=operator), others[number]))
    )
    assert together < 0.85 * alone


@pytest.mark.parametrize(("cycles", "chosen"), [((100, 99), "others"), ((100, 100), "given")])
def test_other_calls_are_taken_if_whole_programs_are_faster(
    cycles: tuple[int, int], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def graph(total: int) -> Any:
        region = SimpleNamespace(chain=SimpleNamespace(program=SimpleNamespace(total_cycles=total)))
        return SimpleNamespace(nodes=[SimpleNamespace(op=ACCELERATED, attributes={REGION: region})])

    made = {"given": graph(cycles[0]), "others": graph(cycles[1])}
    choice: Any = NeighbourChoice(SimpleNamespace(time=lambda program: program))  # type: ignore[arg-type]
    monkeypatch.setattr(NeighbourChoice, "together", lambda self, graph, calls: "others")
    assert choice.divided(None, "given", made.__getitem__) == (made[chosen], chosen)

# SPDX-License-Identifier: Apache-2.0
"""Options of templates come from attributes and shapes, by name."""

from dataclasses import dataclass, field
from inspect import signature

import numpy as np
import pytest

from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.machine.call import MachineNode
from vdla.compiler.graph.machine.calls import elementwise
from vdla.compiler.operators.vdla.operator import TemplateError, template
from vdla.compiler.templates.elementwise import Rescale
from vdla.hardware.config import Config

REQUANTISED = {"multiplier": np.array([1]), "shift": np.array([0]), "y_zero_point": 2, "low": -128, "high": 90}


@dataclass(frozen=True, kw_only=True)
class Tinted(Rescale):
    """A rescaling with an option of its own, which shifts the results, and a field that is none."""

    tint: int = 0
    ceiling: int | None = field(default=None, init=False)
    name: str = "tinted"
    _doubled: bool = False

    @property
    def offset(self):
        return super().offset + self.tint


tinted = template("tinted", Tinted)


def call(**attributes):
    node = Node("example.QTint", ("x",), ("y",), {"x_zero_point": 1, **REQUANTISED, **attributes})
    types = dict.fromkeys("xy", TensorType("int8", (2, 5, 7)))
    graph = Graph("g", ("x",), ("y",), (node,), {}, types)
    return elementwise(tinted)(MachineNode(graph, node, Config(), {}))


def test_an_option_of_a_template_is_declared_there_only():
    extents = {"batch": 2, "height": 1, "width": 7, "channels": 5}
    assert call(tint=3).operator.origin.options == {**extents, "input_zero_point": 1, "zero_point": 2, "tint": 3}
    assert "tint" not in call().operator.origin.options
    assert call(tint=3).constants["scale"].tobytes() != call().constants["scale"].tobytes()


def test_bounds_that_do_not_bind_are_no_options():
    assert "floor" not in call().operator.origin.options
    assert call(low=-5).operator.origin.options["floor"] == -5


def test_the_options_of_a_template_are_the_public_fields_of_its_constructor():
    options = list(signature(tinted).parameters)
    assert options[:6] == ["config", "batch", "height", "width", "channels", "tint"]
    assert not {"ceiling", "_doubled", "raw"} & {*options}
    shape = {"batch": 1, "height": 1, "width": 1, "channels": 1}
    with pytest.raises(
        TemplateError, match=r"^tinted: option must be one of batch, .*, got ceiling \(did you mean tiling\?\)$"
    ):
        tinted(Config(), ceiling=3, **shape)
